#include "field.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string_view>

#include "torchrl_pool/half.h"

namespace py = pybind11;

namespace torchrl_pool::bindings {
namespace {

template <class T>
void Store(std::byte* to, T value) {
  std::memcpy(to, &value, sizeof value);
}

// Python's error has said why; whose value it is, it does not know.
[[noreturn]] void Refuse(const Field& field, py::handle value) {
  const py::error_already_set error;
  if (!error.matches(PyExc_OverflowError) && !error.matches(PyExc_TypeError)) throw error;
  throw py::type_error(field.Expected() + ", got " + Py_TYPE(value.ptr())->tp_name + ": " +
                       py::str(error.value()).cast<std::string>());
}

// A number where the entry has one element.
void WriteNumber(const Field& field, std::byte* to, py::handle value) {
  if (field.kind == 'f') {
    double number = PyFloat_AsDouble(value.ptr());
    if (number == -1.0 && PyErr_Occurred()) Refuse(field, value);
    if (field.is_reward) number += 0.0;  // no -0.0, as TorchRL's GymEnv has it, which adds rewards up
    if (field.item_bytes == 8) return Store(to, number);
    return field.item_bytes == 4 ? Store(to, static_cast<float>(number)) : Store(to, Half(number));
  }
  if (field.kind == 'b') {
    const int truth = PyObject_IsTrue(value.ptr());
    if (truth < 0) throw py::error_already_set();
    return Store(to, static_cast<std::uint8_t>(truth));
  }
  const auto index = py::reinterpret_steal<py::object>(PyNumber_Index(value.ptr()));
  if (!index) Refuse(field, value);
  if (field.kind == 'u' && field.item_bytes == 8) {
    const std::uint64_t number = PyLong_AsUnsignedLongLong(index.ptr());
    if (number == UINT64_MAX && PyErr_Occurred()) Refuse(field, value);
    return Store(to, number);
  }
  const std::int64_t number = PyLong_AsLongLong(index.ptr());
  if (number == -1 && PyErr_Occurred()) Refuse(field, value);
  const bool is_signed = field.kind == 'i';
  const int bits = static_cast<int>(field.item_bytes) * 8;
  const std::int64_t most = is_signed ? (bits == 64 ? INT64_MAX : (std::int64_t{1} << (bits - 1)) - 1)
                                      : (std::int64_t{1} << bits) - 1;
  if (number > most || number < (is_signed ? -most - 1 : 0)) {
    throw py::value_error(field.Expected() + ", got the number " + std::to_string(number));
  }
  std::memcpy(to, &number, field.item_bytes);
}

// What nearly all envs return: arrays of the entry's own dtype and shape, one row after the other.
bool WritePlainArray(const Field& field, std::byte* to, py::handle value) {
  const auto* array = py::detail::array_proxy(value.ptr());
  const bool fits =
      array->descr == field.numpy_dtype.ptr() &&
      (array->flags & py::detail::npy_api::NPY_ARRAY_C_CONTIGUOUS_) != 0 &&
      std::equal(array->dimensions, array->dimensions + array->nd, field.shape.begin(), field.shape.end());
  if (fits) std::memcpy(to, array->data, field.bytes);
  return fits;
}

// These numbers in the entry's dtype: of floats as near as it comes, all others as they are, or nothing.
std::optional<py::array> Cast(const Field& field, const py::array& array) {
  constexpr std::string_view kNumbers = "biuf";
  if (kNumbers.find(array.dtype().kind()) == std::string_view::npos) return std::nullopt;
  auto cast = array.attr("astype")(field.dtype).cast<py::array>();
  if (field.kind == 'f') return cast;
  const bool is_same = py::module_::import("numpy").attr("array_equal")(cast, array).cast<bool>();
  return is_same ? std::optional(cast) : std::nullopt;
}

// Of another dtype too, where nothing is lost: else TorchRL's GymEnv casts, and here the env has failed. A
// cast array is not cast again: subclasses may keep their dtype.
void WriteArray(const Field& field, std::byte* to, const py::array& array, bool is_cast = false) {
  const py::dtype dtype = array.dtype();
  const std::vector<py::ssize_t> shape(array.shape(), array.shape() + array.ndim());
  const bool is_number = shape.empty() && field.size == 1 && field.shape.size() <= 1;
  const bool fits = field.is_reward ? static_cast<std::size_t>(array.size()) == field.size
                                    : shape == field.shape || is_number;
  const bool is_like =
      dtype.kind() == field.kind && static_cast<std::size_t>(dtype.itemsize()) == field.item_bytes;
  if (fits && !is_like && !is_cast) {
    if (const auto cast = Cast(field, array)) return WriteArray(field, to, *cast, true);
  }
  if (!fits || !is_like) {
    const char* const hint = field.is_reward && !fits ? " (an env of Gymnasium that pays several tells so "
                                                        "in its reward_space)"
                                                      : "";
    throw py::type_error(field.Expected() + ", got " + py::str(dtype).cast<std::string>() + " " +
                         Field::ShapeOf(shape) + hint);
  }
  const bool is_plain = (array.flags() & py::array::c_style) != 0 && dtype.byteorder() != '>';
  const py::array plain =
      is_plain ? array
               : py::module_::import("numpy").attr("ascontiguousarray")(array, field.dtype).cast<py::array>();
  std::memcpy(to, plain.data(), field.bytes);
}

}  // namespace

void Write(const Field& field, std::byte* to, py::handle value) {
  if (py::isinstance<py::array>(value)) {
    if (!WritePlainArray(field, to, value)) {
      WriteArray(field, to, py::reinterpret_borrow<py::array>(value));
    }
    return;
  }
  const bool is_number = PyNumber_Check(value.ptr()) && (field.shape.size() <= 1 || field.is_reward);
  if (field.size == 1 && is_number) return WriteNumber(field, to, value);
  const bool is_array = py::hasattr(value, "__array__");
  if (!is_array && (!py::isinstance<py::sequence>(value) || py::isinstance<py::str>(value))) {
    throw py::type_error(field.Expected() + ", got " + Py_TYPE(value.ptr())->tp_name);
  }
  WriteArray(field, to, py::module_::import("numpy").attr("asarray")(value).cast<py::array>());
}

}  // namespace torchrl_pool::bindings
