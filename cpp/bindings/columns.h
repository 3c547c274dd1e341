// Tensors and arrays as Python hands them in: one for each column of a batch.
#ifndef TORCHRL_POOL_BINDINGS_COLUMNS_H_
#define TORCHRL_POOL_BINDINGS_COLUMNS_H_

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace torchrl_pool::bindings {

namespace py = pybind11;

// Null: the column is not wanted.
using Addresses = std::vector<std::byte*>;

inline void CheckCount(const char* what, const Addresses& addresses, std::size_t expected) {
  if (addresses.size() == expected) return;
  throw py::value_error(std::string(what) + ": expected " + std::to_string(expected) + " addresses, got " +
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

// Of arrays of NumPy, whose rows follow each other; None: the column is not wanted.
inline Addresses OfArrays(const py::list& arrays) {
  Addresses addresses;
  addresses.reserve(arrays.size());
  for (const py::handle one : arrays) {
    const void* data = one.is_none() ? nullptr : py::cast<py::array>(one).data();
    addresses.push_back(static_cast<std::byte*>(const_cast<void*>(data)));
  }
  return addresses;
}

}  // namespace torchrl_pool::bindings

#endif  // TORCHRL_POOL_BINDINGS_COLUMNS_H_
