// Tensors as Python hands them in: lists of addresses, one for each column of a batch.
#ifndef TORCHRL_POOL_BINDINGS_COLUMNS_H_
#define TORCHRL_POOL_BINDINGS_COLUMNS_H_

#include <pybind11/pybind11.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "chain.h"
#include "job.h"
#include "layout.h"

namespace torchrl_pool::bindings {

namespace py = pybind11;

using Addresses = std::vector<std::byte*>;

inline Addresses FromList(const char* what, const py::list& list, std::size_t expected) {
  if (list.size() != expected) {
    throw py::value_error(std::string(what) + ": expected " + std::to_string(expected) + " addresses, got " +
                          std::to_string(list.size()));
  }
  Addresses addresses(expected);
  for (std::size_t i = 0; i < expected; ++i) {
    const std::size_t address = PyLong_AsSize_t(PyList_GET_ITEM(list.ptr(), i));
    if (address == static_cast<std::size_t>(-1) && PyErr_Occurred()) throw py::error_already_set();
    addresses[i] = reinterpret_cast<std::byte*>(address);
  }
  return addresses;
}

// Addresses of all outputs but rewards, as a root has them, with nulls for those.
inline Addresses FromRoot(const char* what, const py::list& list, const core::Layout& layout) {
  const auto is_reward = [](const auto& column) { return column.spec.role == TRP_REWARD; };
  const auto rewards = std::count_if(layout.outputs.begin(), layout.outputs.end(), is_reward);
  Addresses addresses = FromList(what, list, layout.outputs.size() - static_cast<std::size_t>(rewards));
  for (std::size_t i = 0; i < layout.outputs.size(); ++i) {
    if (is_reward(layout.outputs[i]))
      addresses.insert(addresses.begin() + static_cast<std::ptrdiff_t>(i), nullptr);
  }
  return addresses;
}

// What a call's batches consist of: the pool's columns, and those of its chain if it has one. A chain's roots
// name all columns, with nulls for those that they lack.
struct Columns {
  const core::Layout& layout;
  const core::Chain* chain;

  std::size_t num_inputs() const { return chain ? chain->num_inputs() : layout.actions.size(); }
  Addresses Inputs(const py::list& list) const { return FromList("actions", list, num_inputs()); }
  Addresses Outputs(const py::list& list) const {
    return FromList("out", list, chain ? chain->num_columns() : layout.outputs.size());
  }
  Addresses Root(const char* what, const py::list& list) const {
    return chain ? FromList(what, list, chain->num_columns()) : FromRoot(what, list, layout);
  }
  void Extend(core::Job& job) const {
    if (chain) chain->Extend(job);
  }
};

}  // namespace torchrl_pool::bindings

#endif  // TORCHRL_POOL_BINDINGS_COLUMNS_H_
