// Entries that a step reads: a look at those that are as expected, which nearly all are, at every step.
#ifndef TORCHRL_POOL_BINDINGS_PLAIN_TENSORS_H_
#define TORCHRL_POOL_BINDINGS_PLAIN_TENSORS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "plain_tensor.h"
#include "rows.h"

namespace torchrl_pool::bindings {

namespace py = pybind11;

// Finds entries that are plain tensors of given shapes and dtypes, in a tensordict or in a dictionary by key.
class PlainTensors {
 public:
  // `keys`: the names on the way to each. `tensors`: its shape and its dtype ("float32"). `required`: whether
  // it has to be there.
  PlainTensors(const py::object& tensor_type, py::object tensordict_type,
               const std::vector<std::vector<py::str>>& keys,
               const std::vector<std::pair<std::vector<std::int64_t>, std::string>>& tensors,
               const std::vector<bool>& required)
      : plain_(tensor_type), tensordict_type_(std::move(tensordict_type)) {
    if (keys.size() != tensors.size() || keys.size() != required.size()) {
      throw py::value_error("expected as many keys as tensors");
    }
    for (std::size_t i = 0; i < keys.size(); ++i) {
      const auto& [shape, dtype] = tensors[i];
      if (keys[i].empty()) throw py::value_error("expected names in each key");
      py::object whole = keys[i].front();
      if (keys[i].size() > 1) whole = py::tuple(py::cast(keys[i]));
      wanted_.push_back({std::move(whole), keys[i], shape, DlDtypeOf(dtype), required[i]});
    }
  }

  // Appends each entry's rows and the tensor that holds them, null where one may be missing and is. False:
  // an entry is otherwise. `entries`: those of a tensordict; one of several names may also be there by its
  // whole key. `apart`: whether there may be room between rows.
  bool FindIn(const py::object& entries, std::optional<std::int64_t> num_rows, bool apart,
              std::vector<core::Rows>& rows, std::vector<py::object>& owners) const {
    if (!plain_.exchange()) return false;
    for (const Wanted& wanted : wanted_) {
      py::object value = ValueOf(entries, wanted);
      const auto found = value ? RowsOf(value, wanted, num_rows, apart) : Missing(wanted);
      if (!found) return false;
      rows.push_back(*found);
      owners.push_back(std::move(value));
    }
    return true;
  }

 private:
  struct Wanted {
    py::object key;  // a string, or a tuple of them
    std::vector<py::str> path;
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

  // Held, for to look at it may let other threads take it out of the dictionary. Null: there is none.
  py::object ValueOf(const py::object& entries, const Wanted& wanted) const {
    if (py::object whole = ItemOf(entries, wanted.key); whole || wanted.path.size() == 1) return whole;
    py::object value = ItemOf(entries, wanted.path.front());
    for (std::size_t depth = 1; value && depth < wanted.path.size(); ++depth) {
      value = EntriesOf(value);
      if (value) value = ItemOf(value, wanted.path[depth]);
    }
    return value;
  }

  static py::object ItemOf(const py::object& entries, const py::object& key) {
    auto item = py::reinterpret_borrow<py::object>(PyDict_GetItemWithError(entries.ptr(), key.ptr()));
    if (!item && PyErr_Occurred()) throw py::error_already_set();
    return item;
  }

  static std::optional<core::Rows> Missing(const Wanted& wanted) {
    return wanted.required ? std::nullopt : std::optional(core::Rows{nullptr, 0});
  }

  std::optional<core::Rows> RowsOf(py::handle value, const Wanted& wanted,
                                   std::optional<std::int64_t> num_rows, bool apart) const {
    if (!wanted.dtype) return std::nullopt;
    const std::uint8_t code = wanted.dtype->code;
    if (!plain_.IsItself(value, code == kDlFloat, code != kDlBool)) return std::nullopt;
    const auto tensor = plain_.Look(value, apart);
    if (!tensor || !HasShape(*tensor, wanted.shape, num_rows) || tensor->dtype.code != code ||
        tensor->dtype.bits != wanted.dtype->bits) {
      return std::nullopt;
    }
    return core::Rows{PlainTensor::DataOf(*tensor), PlainTensor::RowStride(*tensor)};
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

}  // namespace torchrl_pool::bindings

#endif  // TORCHRL_POOL_BINDINGS_PLAIN_TENSORS_H_
