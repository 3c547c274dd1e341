// Tensors that a step reads: a look at those that are as expected, which nearly all are, at every step.
#include <pybind11/stl.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "dlpack.h"
#include "module.h"
#include "plain_tensor.h"

namespace py = pybind11;

namespace torchrl_pool::bindings {
namespace {

// Finds the entries of a tensordict that are plain tensors of given shapes and dtypes.
class PlainTensors {
 public:
  // `keys`: the names on the way to each. `tensors`: its shape and its dtype ("float32"). `required`: whether
  // it has to be there.
  PlainTensors(const py::object& tensor_type, const py::object& tensordict_type,
               const std::vector<std::vector<py::str>>& keys,
               const std::vector<std::pair<std::vector<std::int64_t>, std::string>>& tensors,
               const std::vector<bool>& required)
      : plain_(tensor_type), tensordict_type_(tensordict_type) {
    if (keys.size() != tensors.size() || keys.size() != required.size()) {
      throw py::value_error("expected as many keys as tensors");
    }
    for (std::size_t i = 0; i < keys.size(); ++i) {
      const auto& [shape, dtype] = tensors[i];
      if (keys[i].empty()) throw py::value_error("expected names in each key");
      wanted_.push_back({keys[i], shape, DlDtypeOf(dtype), required[i]});
    }
  }

  // The entries and their addresses: None and 0 where one may be missing and is. Nothing: one is otherwise.
  // `num_rows`: the number of rows that each has.
  std::optional<std::pair<py::list, py::list>> Find(py::handle tensordict,
                                                    std::optional<std::int64_t> num_rows) const {
    if (!plain_.exchange()) return std::nullopt;
    const py::object entries = EntriesOf(tensordict);
    if (!entries) return std::nullopt;
    py::list values(wanted_.size()), addresses(wanted_.size());
    for (std::size_t i = 0; i < wanted_.size(); ++i) {
      const Wanted& wanted = wanted_[i];
      // Held, for to look at it may let other threads take it out of the dictionary.
      py::object value = ItemOf(entries, wanted.key.front());
      for (std::size_t depth = 1; value && depth < wanted.key.size(); ++depth) {
        value = EntriesOf(value);
        if (!value) return std::nullopt;
        value = ItemOf(value, wanted.key[depth]);
      }
      std::uintptr_t address = 0;
      if (value) {
        const auto found = AddressOf(value, wanted, num_rows);
        if (!found) return std::nullopt;
        address = *found;
      } else if (wanted.required) {
        return std::nullopt;
      }
      values[i] = value ? std::move(value) : py::none();
      addresses[i] = py::int_(address);
    }
    return std::pair(std::move(values), std::move(addresses));
  }

 private:
  struct Wanted {
    std::vector<py::str> key;
    std::vector<std::int64_t> shape;
    std::optional<DlDtype> dtype;  // nothing: of numbers that a closer look has to see
    bool required;
  };

  // The dictionary within a tensordict. Null: it is of another kind.
  py::object EntriesOf(py::handle tensordict) const {
    if (!py::type::handle_of(tensordict).is(tensordict_type_)) return {};
    py::object entries = py::getattr(tensordict, entries_);
    return PyDict_Check(entries.ptr()) ? entries : py::object();
  }

  // Null: there is none.
  static py::object ItemOf(const py::object& entries, const py::str& name) {
    auto item = py::reinterpret_borrow<py::object>(PyDict_GetItemWithError(entries.ptr(), name.ptr()));
    if (!item && PyErr_Occurred()) throw py::error_already_set();
    return item;
  }

  std::optional<std::uintptr_t> AddressOf(py::handle value, const Wanted& wanted,
                                          std::optional<std::int64_t> num_rows) const {
    if (!wanted.dtype) return std::nullopt;
    const std::uint8_t code = wanted.dtype->code;
    if (!plain_.IsItself(value, code == kDlFloat, code != kDlBool)) return std::nullopt;
    const auto tensor = plain_.Look(value);
    if (!tensor || !HasShape(*tensor, wanted.shape, num_rows) || tensor->dtype.code != code ||
        tensor->dtype.bits != wanted.dtype->bits) {
      return std::nullopt;
    }
    return reinterpret_cast<std::uintptr_t>(PlainTensor::DataOf(*tensor));
  }

  static bool HasShape(const DlTensor& tensor, const std::vector<std::int64_t>& shape,
                       std::optional<std::int64_t> num_rows) {
    if (static_cast<std::size_t>(tensor.ndim) != shape.size()) return false;
    for (std::size_t dim = 0; dim < shape.size(); ++dim) {
      if (tensor.shape[dim] != (dim == 0 && num_rows ? *num_rows : shape[dim])) return false;
    }
    return true;
  }

  const PlainTensor plain_;
  const py::object tensordict_type_;
  const py::str entries_{"_tensordict"};
  std::vector<Wanted> wanted_;
};

}  // namespace

void InitTensors(py::module_& m) {
  py::class_<PlainTensors>(m, "PlainTensors", "What tensors a step is to find.")
      .def(py::init<const py::object&, const py::object&, const std::vector<std::vector<py::str>>&,
                    const std::vector<std::pair<std::vector<std::int64_t>, std::string>>&,
                    const std::vector<bool>&>(),
           py::kw_only(), py::arg("tensor_type"), py::arg("tensordict_type"), py::arg("keys"),
           py::arg("tensors"), py::arg("required"))
      .def("find", &PlainTensors::Find, py::arg("tensordict"), py::arg("num_rows") = py::none(),
           "The tensors and their addresses, or None where one is otherwise.");
}

}  // namespace torchrl_pool::bindings
