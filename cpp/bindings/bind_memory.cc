#include <pybind11/stl.h>

#include <cstring>

#include "constructor.h"
#include "module.h"
#include "plain_tensor.h"
#include "tensor_memory.h"

namespace torchrl_pool::bindings {
namespace {

// Copies tensors without what some of their rows hold.
class RowEraser {
 public:
  explicit RowEraser(const py::object& tensor_type) : plain_(tensor_type) {}

  // A copy with zeros in the rows of a mask, a bool for each row. None: one of the two is no plain tensor.
  py::object Erased(py::handle value, py::handle rows) const {
    const bool are_plain =
        plain_.exchange() && plain_.IsItself(rows, false, false) && plain_.IsItself(value, true, true);
    const auto mask = are_plain ? plain_.Look(rows, true) : std::nullopt;
    const auto whole = mask ? plain_.Look(value, true) : std::nullopt;
    // Whether a complex one is the conjugate of what it holds has not been asked.
    if (!whole || whole->ndim == 0 || whole->dtype.code == kDlComplex || !IsMask(*mask, whole->shape[0])) {
      return py::none();
    }
    DlTensor like = *whole;
    std::vector<std::int64_t> strides(static_cast<std::size_t>(like.ndim));
    std::int64_t size = 1;
    for (std::size_t dim = strides.size(); dim-- > 0; size *= like.shape[dim]) strides[dim] = size;
    like.strides = strides.data();
    const auto count = static_cast<std::size_t>(like.shape[0]), item = std::size_t{like.dtype.bits} / 8;
    const std::size_t bytes = static_cast<std::size_t>(size) * item, row_bytes = count ? bytes / count : 0;
    DlManagedTensor* const copy = Fresh(std::malloc(BlockSize(bytes)), nullptr, like);
    for (std::size_t row = 0; row < count && row_bytes > 0; ++row) {
      auto* const to = static_cast<std::byte*>(copy->tensor.data) + row * row_bytes;
      if (*RowOf(*mask, row, 1) != std::byte{0}) {
        std::memset(to, 0, row_bytes);
      } else {
        std::memcpy(to, RowOf(*whole, row, item), row_bytes);
      }
    }
    return Handed(*plain_.exchange(), copy);
  }

 private:
  static bool IsMask(const DlTensor& tensor, std::int64_t rows) {
    return tensor.dtype.code == kDlBool && tensor.ndim >= 1 && tensor.shape[0] == rows &&
           std::all_of(tensor.shape + 1, tensor.shape + tensor.ndim, [](auto extent) { return extent == 1; });
  }

  static const std::byte* RowOf(const DlTensor& tensor, std::size_t row, std::size_t item) {
    return PlainTensor::DataOf(tensor) +
           static_cast<std::ptrdiff_t>(row) * tensor.strides[0] * static_cast<std::ptrdiff_t>(item);
  }

  const PlainTensor plain_;
};

}  // namespace

void InitMemory(py::module_& m) {
  py::class_<RowEraser>(m, "RowEraser", "Copies tensors without what some of their rows hold.")
      .def("__init__", Constructor<RowEraser, const py::object&>(), kConstructs, py::arg("tensor_type"))
      .def("erased", &RowEraser::Erased, py::arg("value"), py::arg("rows"),
           "A copy with zeros in these rows, bool [n] or [n, 1], or None where one of the two is no plain "
           "tensor.");
  py::class_<TensorMemory>(m, "TensorMemory", "What fresh tensors are to be like.")
      .def("__init__",
           Constructor<TensorMemory, const py::object&, py::object, const py::list&,
                       const std::vector<std::pair<std::vector<std::int64_t>, std::string>>&,
                       const std::vector<std::size_t>&, std::vector<TensorMemory::Fixed>, py::object>(),
           kConstructs, py::kw_only(), py::arg("tensor_type"), py::arg("from_dlpack"), py::arg("keys"),
           py::arg("tensors"), py::arg("positions"), py::arg("fixed"), py::arg("make") = py::none())
      .def("make", &TensorMemory::Make, py::arg("num_rows") = py::none(),
           "Tensors that are not written yet, by key; the addresses.")
      .def("let_go", &TensorMemory::LetGo);
}

}  // namespace torchrl_pool::bindings
