// One of an env's outputs, as it lies in the arena, and how what Python returns gets there.
#ifndef TORCHRL_POOL_BINDINGS_FIELD_H_
#define TORCHRL_POOL_BINDINGS_FIELD_H_

#include <pybind11/numpy.h>

#include <cstddef>
#include <string>
#include <vector>

namespace torchrl_pool::bindings {

struct Field {
  std::string name;
  bool is_reward;
  char kind;  // as NumPy's dtype.kind
  std::size_t item_bytes, size, bytes;
  std::vector<pybind11::ssize_t> shape;
  const char* dtype;
  pybind11::dtype numpy_dtype;

  std::string Expected() const { return "entry '" + name + "': expected " + dtype + " " + ShapeOf(shape); }

  static std::string ShapeOf(const std::vector<pybind11::ssize_t>& shape) {
    std::string text = "[";
    for (const auto extent : shape) text += (text.size() > 1 ? ", " : "") + std::to_string(extent);
    return text + "]";
  }
};

// Writes an array, a number or a sequence of numbers to an env's row. Throws what is a TypeError or a
// ValueError in Python: it has another shape, or numbers that the entry cannot hold.
void Write(const Field& field, std::byte* to, pybind11::handle value);

}  // namespace torchrl_pool::bindings

#endif  // TORCHRL_POOL_BINDINGS_FIELD_H_
