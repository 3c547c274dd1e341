// Entries of tensordicts: how they are found, made and copied, and whether names still stand for the same.
#include <pybind11/stl.h>

#include <cstring>

#include "constructor.h"
#include "gil.h"
#include "module.h"
#include "plain_tensors.h"
#include "tensor_memory.h"

namespace torchrl_pool::bindings {
namespace {

// dst row i = row rows[i] of the source number groups[i], for each column: (dst, bytes of a row, sources,
// each an address and how many bytes are there).
void GatherRows(const std::vector<std::uint32_t>& groups, const std::vector<std::size_t>& rows,
                const std::vector<std::tuple<std::uintptr_t, std::size_t,
                                             std::vector<std::pair<std::uintptr_t, std::size_t>>>>& columns) {
  const GilReleased released;
  for (const auto& [to, bytes, sources] : columns) {
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const auto [first, size] = sources.at(groups.at(i));
      if (bytes > 0 && rows[i] >= size / bytes) {
        throw py::index_error(
            "a tensor that was sent has become smaller since: send it, and leave it as it is");
      }
      const std::uintptr_t from = first + rows[i] * bytes;
      std::memcpy(reinterpret_cast<std::byte*>(to) + i * bytes, reinterpret_cast<const std::byte*>(from),
                  bytes);
    }
  }
}

bool StandsFor(PyObject* space, PyObject* name, PyObject* object) {
  if (!PyDict_Check(space)) return py::handle(space).attr("get")(py::handle(name)).is(py::handle(object));
  PyObject* const found = PyDict_GetItemWithError(space, name);
  if (!found && PyErr_Occurred()) throw py::error_already_set();
  return (found ? found : Py_None) == object;
}

// `watched`: tuples of a namespace (a dictionary, or what else has a `get`), a name, the object that it
// stands for, and, if that is a list, a copy of it.
bool IsUnchanged(const py::list& watched) {
  for (const py::handle one : watched) {
    const auto tuple = py::reinterpret_borrow<py::tuple>(one);
    PyObject* const object = PyTuple_GET_ITEM(tuple.ptr(), 2);
    if (!StandsFor(PyTuple_GET_ITEM(tuple.ptr(), 0), PyTuple_GET_ITEM(tuple.ptr(), 1), object)) return false;
    if (!PyList_Check(object)) continue;
    const int same = PyObject_RichCompareBool(object, PyTuple_GET_ITEM(tuple.ptr(), 3), Py_EQ);
    if (same < 0) throw py::error_already_set();
    if (same == 0) return false;
  }
  return true;
}

}  // namespace

void InitEntries(py::module_& m) {
  py::class_<PlainTensors>(m, "PlainTensors", "What tensors a step is to find.")
      .def("__init__",
           Constructor<PlainTensors, const py::object&, py::object, const std::vector<std::vector<py::str>>&,
                       const std::vector<std::pair<std::vector<std::int64_t>, std::string>>&,
                       const std::vector<bool>&>(),
           kConstructs, py::kw_only(), py::arg("tensor_type"), py::arg("tensordict_type"), py::arg("keys"),
           py::arg("tensors"), py::arg("required"));
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
  m.def("gather_rows", &GatherRows, py::arg("groups"), py::arg("rows"), py::arg("columns"),
        "Rows of several tensors, one after the other.");
  m.def("is_unchanged", &IsUnchanged, py::arg("watched"), "Whether all names still stand for the same.");
}

}  // namespace torchrl_pool::bindings
