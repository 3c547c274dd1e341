// Memory for tensors, handed to torch by DLPack: the cheapest public way to a tensor that nobody else holds.
#include <pybind11/stl.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "module.h"

namespace py = pybind11;

namespace torchrl_pool::bindings {
namespace {

// DLPack's structs, as its versions before 1.0 have them (github.com/dmlc/dlpack, include/dlpack/dlpack.h).
struct DlDevice {
  std::int32_t type, id;
};
struct DlDtype {
  std::uint8_t code, bits;
  std::uint16_t lanes;
};
struct DlTensor {
  void* data;
  DlDevice device;
  std::int32_t ndim;
  DlDtype dtype;
  std::int64_t *shape, *strides;
  std::uint64_t byte_offset;
};
struct DlManagedTensor {
  DlTensor tensor;
  void* manager;
  void (*deleter)(DlManagedTensor*);
};

constexpr std::int32_t kCpu = 1;
constexpr const char* kCapsule = "dltensor";  // until somebody has taken what is in it
constexpr std::size_t kAlignment = 64;        // of data, which torch wants
static_assert(sizeof(DlManagedTensor) <= kAlignment);

DlDtype DtypeOf(const std::string& name) {
  if (name == "bool") return {6, 8, 1};
  const std::size_t digits = name.find_first_of("0123456789");
  const std::string kind = name.substr(0, digits);
  const std::uint8_t code = kind == "int" ? 0 : kind == "uint" ? 1 : 2;
  return {code, static_cast<std::uint8_t>(std::stoi(name.substr(digits))), 1};
}

// What fresh tensors are to be like: shapes and dtypes ("float32").
class TensorMemory {
 public:
  explicit TensorMemory(const std::vector<std::pair<std::vector<std::int64_t>, std::string>>& tensors) {
    for (const auto& [shape, dtype] : tensors) {
      Like like{shape, DtypeOf(dtype), 0};
      like.bytes = like.dtype.bits / 8;
      for (const std::int64_t extent : shape) like.bytes *= static_cast<std::size_t>(extent);
      likes_.push_back(std::move(like));
    }
  }

  // Capsules with memory for one of each, not written yet, and their addresses. Shapes are read while they
  // are taken: this must be there until then.
  std::pair<py::list, py::list> Make() {
    py::list capsules(likes_.size()), addresses(likes_.size());
    for (std::size_t i = 0; i < likes_.size(); ++i) {
      Like& like = likes_[i];
      const std::size_t bytes = (like.bytes + 2 * kAlignment - 1) / kAlignment * kAlignment;
      auto* const memory = static_cast<std::byte*>(std::aligned_alloc(kAlignment, bytes));
      if (!memory) throw std::bad_alloc();
      std::byte* const data = memory + kAlignment;
      auto* const managed = new (memory) DlManagedTensor{{data,
                                                          {kCpu, 0},
                                                          static_cast<std::int32_t>(like.shape.size()),
                                                          like.dtype,
                                                          like.shape.data(),
                                                          nullptr,
                                                          0},
                                                         nullptr,
                                                         [](DlManagedTensor* self) { std::free(self); }};
      auto capsule = py::reinterpret_steal<py::object>(PyCapsule_New(managed, kCapsule, FreeUntaken));
      if (!capsule) {
        std::free(memory);
        throw py::error_already_set();
      }
      capsules[i] = std::move(capsule);
      addresses[i] = py::int_(reinterpret_cast<std::uintptr_t>(data));
    }
    return {std::move(capsules), std::move(addresses)};
  }

 private:
  struct Like {
    std::vector<std::int64_t> shape;
    DlDtype dtype;
    std::size_t bytes;
  };

  static void FreeUntaken(PyObject* capsule) {
    if (PyCapsule_IsValid(capsule, kCapsule)) std::free(PyCapsule_GetPointer(capsule, kCapsule));
  }

  std::vector<Like> likes_;
};

}  // namespace

void InitMemory(py::module_& m) {
  py::class_<TensorMemory>(m, "TensorMemory", "What fresh tensors are to be like.")
      .def(py::init<const std::vector<std::pair<std::vector<std::int64_t>, std::string>>&>())
      .def("make", &TensorMemory::Make, "DLPack capsules of one of each, not written yet; their addresses.");
}

}  // namespace torchrl_pool::bindings
