// A look at tensors that are just memory, which nearly all are.
#ifndef TORCHRL_POOL_BINDINGS_PLAIN_TENSOR_H_
#define TORCHRL_POOL_BINDINGS_PLAIN_TENSOR_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "dlpack.h"

namespace torchrl_pool::bindings {

// Finds out which values are torch's own tensors, on the CPU, with the numbers that they show one after the
// other in memory, and without a gradient. Of all others Python has to see what can be made.
class PlainTensor {
 public:
  explicit PlainTensor(const pybind11::object& tensor_type)
      : type_(tensor_type),
        is_neg_(pybind11::getattr(tensor_type, "is_neg", pybind11::none())),
        exchange_(ExchangeOf(tensor_type)) {}

  // Null: the type cannot be asked in C.
  const DlExchange* exchange() const { return exchange_; }

  // What DLPack does not tell: whether a gradient is asked for, and whether it is a view that shows the
  // opposite of what it holds. Asked before a Look, for these may let other threads change the tensor.
  bool IsItself(pybind11::handle value, bool may_have_gradient, bool may_be_opposite) const {
    return pybind11::type::handle_of(value).is(type_) &&
           !(may_have_gradient && IsTrue(pybind11::getattr(value, requires_grad_))) &&
           !(may_be_opposite && IsNeg(value));
  }

  // Good for as long as nobody else does anything. `apart`: whether there may be room between the rows.
  std::optional<DlTensor> Look(pybind11::handle value, bool apart = false) const {
    DlTensor tensor;
    if (exchange_->look_at(value.ptr(), &tensor) != 0) {  // one without memory, say
      PyErr_Clear();
      return std::nullopt;
    }
    if (tensor.device.type != kDlCpu || tensor.dtype.lanes != 1 || !IsContiguous(tensor, apart ? 1 : 0) ||
        (!tensor.data && HasElements(tensor))) {
      return std::nullopt;
    }
    return tensor;
  }

  static std::byte* DataOf(const DlTensor& tensor) {
    return static_cast<std::byte*>(tensor.data) + tensor.byte_offset;
  }

  // Bytes from a row to the next.
  static std::size_t RowStride(const DlTensor& tensor) {
    if (tensor.ndim == 0) return 0;
    return static_cast<std::size_t>(tensor.strides[0]) * (tensor.dtype.bits / 8);
  }

 private:
  // Without the tuple of arguments that pybind11 would make.
  bool IsNeg(pybind11::handle value) const {
    const auto answer =
        pybind11::reinterpret_steal<pybind11::object>(PyObject_CallOneArg(is_neg_.ptr(), value.ptr()));
    if (!answer) throw pybind11::error_already_set();
    return IsTrue(answer);
  }

  static bool IsTrue(const pybind11::object& value) { return value.ptr() == Py_True; }

  static bool HasElements(const DlTensor& tensor) {
    return std::find(tensor.shape, tensor.shape + tensor.ndim, 0) == tensor.shape + tensor.ndim;
  }

  // From this dimension on.
  static bool IsContiguous(const DlTensor& tensor, std::int32_t first) {
    std::int64_t expected = 1;
    bool contiguous = true;
    for (std::int32_t dim = tensor.ndim; dim-- > first;) {
      if (tensor.shape[dim] == 0) return true;
      contiguous = contiguous && (tensor.shape[dim] == 1 || tensor.strides[dim] == expected);
      expected *= tensor.shape[dim];
    }
    return contiguous;
  }

  const pybind11::object type_, is_neg_;
  const DlExchange* const exchange_;
  const pybind11::str requires_grad_{"requires_grad"};
};

}  // namespace torchrl_pool::bindings

#endif  // TORCHRL_POOL_BINDINGS_PLAIN_TENSOR_H_
