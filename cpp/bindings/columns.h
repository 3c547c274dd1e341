// Tensors as Python hands them in: lists of addresses, one for each column of a batch.
#ifndef TORCHRL_POOL_BINDINGS_COLUMNS_H_
#define TORCHRL_POOL_BINDINGS_COLUMNS_H_

#include <pybind11/pybind11.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "chain.h"
#include "job.h"
#include "layout.h"

namespace torchrl_pool::bindings {

namespace py = pybind11;

using Addresses = std::vector<std::byte*>;

inline Addresses Expected(const char* what, Addresses addresses, std::size_t number) {
  if (addresses.size() == number) return addresses;
  throw py::value_error(std::string(what) + ": expected " + std::to_string(number) + " addresses, got " +
                        std::to_string(addresses.size()));
}

inline Addresses FromList(const py::list& list) {
  Addresses addresses(list.size());
  for (std::size_t i = 0; i < addresses.size(); ++i) {
    const std::size_t address = PyLong_AsSize_t(PyList_GET_ITEM(list.ptr(), static_cast<py::ssize_t>(i)));
    if (address == static_cast<std::size_t>(-1) && PyErr_Occurred()) throw py::error_already_set();
    addresses[i] = reinterpret_cast<std::byte*>(address);
  }
  return addresses;
}

inline Addresses FromList(const char* what, const py::list& list, std::size_t expected) {
  return Expected(what, FromList(list), expected);
}

// Addresses of all outputs, with nulls for rewards, from those of all others: what a root has.
inline Addresses WithoutRewards(const char* what, Addresses addresses, const core::Layout& layout) {
  for (std::size_t i = 0; i < layout.outputs.size(); ++i) {
    if (layout.outputs[i].spec.role != TRP_REWARD) continue;
    addresses.insert(addresses.begin() + static_cast<std::ptrdiff_t>(std::min(i, addresses.size())), nullptr);
  }
  return Expected(what, std::move(addresses), layout.outputs.size());
}

inline Addresses FromRoot(const char* what, const py::list& list, const core::Layout& layout) {
  return WithoutRewards(what, FromList(list), layout);
}

// What a call's batches consist of: the pool's columns, and those of its chain if it has one. A chain's roots
// name all columns, with nulls for those that they lack.
struct Columns {
  const core::Layout& layout;
  const core::Chain* chain;

  Addresses Inputs(Addresses addresses) const {
    return Expected("actions", std::move(addresses), chain ? chain->num_inputs() : layout.actions.size());
  }
  Addresses Outputs(const py::list& list) const {
    return FromList("out", list, chain ? chain->num_columns() : layout.outputs.size());
  }
  Addresses Root(const char* what, Addresses addresses) const {
    return chain ? Expected(what, std::move(addresses), chain->num_columns())
                 : WithoutRewards(what, std::move(addresses), layout);
  }
  void Extend(core::Job& job) const {
    if (chain) chain->Extend(job);
  }
};

}  // namespace torchrl_pool::bindings

#endif  // TORCHRL_POOL_BINDINGS_COLUMNS_H_
