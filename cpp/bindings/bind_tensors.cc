#include <pybind11/stl.h>

#include "constructor.h"
#include "module.h"
#include "plain_tensors.h"

namespace torchrl_pool::bindings {

void InitTensors(py::module_& m) {
  py::class_<PlainTensors>(m, "PlainTensors", "What tensors a step is to find.")
      .def("__init__",
           Constructor<PlainTensors, const py::object&, py::object, const std::vector<std::vector<py::str>>&,
                       const std::vector<std::pair<std::vector<std::int64_t>, std::string>>&,
                       const std::vector<bool>&>(),
           kConstructs, py::kw_only(), py::arg("tensor_type"), py::arg("tensordict_type"), py::arg("keys"),
           py::arg("tensors"), py::arg("required"))
      .def("find", &PlainTensors::Find, py::arg("tensordict"), py::arg("num_rows") = py::none(),
           "The tensors and their addresses, or None where one is otherwise.");
}

}  // namespace torchrl_pool::bindings
