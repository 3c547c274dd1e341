// Whether names still stand for the objects that something was made from: asked before every step of a chain.
#include "module.h"

namespace py = pybind11;

namespace torchrl_pool::bindings {
namespace {

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

void InitWatch(py::module_& m) {
  m.def("is_unchanged", &IsUnchanged, py::arg("watched"), "Whether all names still stand for the same.");
}

}  // namespace torchrl_pool::bindings
