// Which Python exception each exception of the core becomes.
#include "errors.h"
#include "module.h"

namespace py = pybind11;

namespace torchrl_pool::bindings {
namespace {

PyObject* TypeOf(trp_status status) {
  switch (status) {
    case TRP_INVALID_ARGUMENT:
      return PyExc_ValueError;
    case TRP_FILE_NOT_FOUND:
      return PyExc_FileNotFoundError;
    case TRP_UNSUPPORTED:
      return PyExc_NotImplementedError;
    default:
      return PyExc_RuntimeError;
  }
}

// What is not UTF-8 is shown as U+FFFD; a last character that was cut off is left out.
py::object Text(std::string_view bytes) {
  Py_ssize_t used = 0;
  auto* text =
      PyUnicode_DecodeUTF8Stateful(bytes.data(), static_cast<Py_ssize_t>(bytes.size()), "replace", &used);
  return py::reinterpret_steal<py::object>(text);
}

PyObject* env_failure = nullptr;  // the type, for as long as the process lives

}  // namespace

void SetError(const core::EnvFailure& failure, const py::object& tensors) {
  py::list faults;
  for (const auto& fault : failure.faults) {
    faults.append(py::make_tuple(fault.env_index, Text(fault.message), fault.step, fault.hung));
  }
  PyErr_SetObject(env_failure, py::make_tuple(Text(failure.what()), faults, tensors).ptr());
}

void InitErrors(py::module_& m) {
  // EnvFailure(message, [(env_index, message, step, hung), …], what the call has written by key, or None)
  env_failure = py::exception<core::EnvFailure>(m, "EnvFailure", PyExc_RuntimeError).release().ptr();
  py::register_exception_translator([](std::exception_ptr pointer) {
    try {
      std::rethrow_exception(pointer);
    } catch (const core::EnvFailure& e) {
      SetError(e, py::none());
    } catch (const core::StatusError& e) {
      PyErr_SetObject(TypeOf(e.status), Text(e.what()).ptr());
    } catch (const core::Interrupted&) {  // what Python has raised stays raised
      if (!PyErr_Occurred()) PyErr_SetNone(PyExc_KeyboardInterrupt);
    } catch (const core::PoolError& e) {
      PyErr_SetString(PyExc_RuntimeError, e.what());
    }
  });
}

}  // namespace torchrl_pool::bindings
