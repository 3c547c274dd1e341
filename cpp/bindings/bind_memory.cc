#include <pybind11/stl.h>

#include <cstring>

#include "constructor.h"
#include "module.h"
#include "plain_tensor.h"
#include "tensor_memory.h"

namespace torchrl_pool::bindings {
namespace {

// Makes tensors of rows of plain ones.
class RowCopier {
 public:
  explicit RowCopier(const py::object& tensor_type) : plain_(tensor_type) {}

  // A copy with zeros in the rows of a mask, a bool for each row. None: one of the two is no plain tensor.
  py::object Erased(py::handle value, py::handle rows) const {
    if (!IsPlain(value) || !plain_.IsItself(rows, false, false)) return py::none();
    const auto mask = plain_.Look(rows, true), whole = LookAtRows(value);
    if (!mask || !whole || !IsMask(*mask, whole->shape[0])) return py::none();
    return Made(*whole, whole->shape[0], [&](std::byte* to, std::size_t row, std::size_t bytes) {
      if (*RowOf(*mask, row) != std::byte{0}) {
        std::memset(to, 0, bytes);
      } else {
        std::memcpy(to, RowOf(*whole, row), bytes);
      }
    });
  }

  // Row i of the result is row `rows[i]` of the source number `numbers[i]`. None: the sources are not all
  // plain tensors whose rows are alike.
  py::object Gathered(const std::vector<py::object>& sources, const std::vector<std::size_t>& numbers,
                      const std::vector<std::size_t>& rows) const {
    for (const py::object& source : sources) {
      if (!IsPlain(source)) return py::none();
    }
    std::vector<DlTensor> looks;
    for (const py::object& source : sources) {
      const auto look = LookAtRows(source);
      if (!look || !HaveLikeRows(*look, looks.empty() ? *look : looks[0])) return py::none();
      looks.push_back(*look);
    }
    const auto write = [&](std::byte* to, std::size_t i, std::size_t bytes) {
      std::memcpy(to, RowOf(looks.at(numbers.at(i)), rows[i]), bytes);
    };
    return Made(looks.at(0), static_cast<std::int64_t>(rows.size()), write);
  }

 private:
  bool IsPlain(py::handle value) const { return plain_.exchange() && plain_.IsItself(value, true, true); }

  // Whether a complex one is the conjugate of what it holds has not been asked.
  std::optional<DlTensor> LookAtRows(py::handle value) const {
    const auto whole = plain_.Look(value, true);
    return whole && whole->ndim > 0 && whole->dtype.code != kDlComplex ? whole : std::nullopt;
  }

  static bool HaveLikeRows(const DlTensor& one, const DlTensor& other) {
    return one.dtype.code == other.dtype.code && one.dtype.bits == other.dtype.bits &&
           std::equal(one.shape + 1, one.shape + one.ndim, other.shape + 1, other.shape + other.ndim);
  }

  // A new tensor like another one with so many rows, which `write(to, row, bytes)` writes.
  template <class Write>
  py::object Made(DlTensor like, std::int64_t rows, const Write& write) const {
    std::vector<std::int64_t> shape(like.shape, like.shape + like.ndim), strides(shape.size());
    shape[0] = rows;
    std::int64_t size = 1;
    for (std::size_t dim = strides.size(); dim-- > 0; size *= shape[dim]) strides[dim] = size;
    like.shape = shape.data();
    like.strides = strides.data();
    const auto count = static_cast<std::size_t>(rows);
    const std::size_t row_bytes = static_cast<std::size_t>(strides[0]) * (like.dtype.bits / 8);
    DlManagedTensor* const made = Fresh(std::malloc(BlockSize(count * row_bytes)), nullptr, like);
    auto* to = static_cast<std::byte*>(made->tensor.data);
    for (std::size_t row = 0; row < count && row_bytes > 0; ++row, to += row_bytes) write(to, row, row_bytes);
    return Handed(*plain_.exchange(), made);
  }

  static bool IsMask(const DlTensor& tensor, std::int64_t rows) {
    return tensor.dtype.code == kDlBool && tensor.ndim >= 1 && tensor.shape[0] == rows &&
           std::all_of(tensor.shape + 1, tensor.shape + tensor.ndim, [](auto extent) { return extent == 1; });
  }

  static const std::byte* RowOf(const DlTensor& tensor, std::size_t row) {
    return PlainTensor::DataOf(tensor) + row * PlainTensor::RowStride(tensor);
  }

  const PlainTensor plain_;
};

}  // namespace

void InitMemory(py::module_& m) {
  py::class_<RowCopier>(m, "RowCopier", "Makes tensors of rows of plain ones.")
      .def("__init__", Constructor<RowCopier, const py::object&>(), kConstructs, py::arg("tensor_type"))
      .def("erased", &RowCopier::Erased, py::arg("value"), py::arg("rows"),
           "A copy with zeros in these rows, bool [n] or [n, 1], or None where one of the two is no plain "
           "tensor.")
      .def("gathered", &RowCopier::Gathered, py::arg("sources"), py::arg("numbers"), py::arg("rows"),
           "Row i is row rows[i] of the source number numbers[i]; None where these are not plain and alike.");
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
