// The pool, but for its calls.
#include <pybind11/stl.h>

#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "constructor.h"
#include "gil.h"
#include "module.h"
#include "pool_handle.h"

namespace py = pybind11;

namespace torchrl_pool::bindings {

bool Interrupted() {
  const GilTaken gil;
  if (!gil) return false;  // whoever waits in a thread that nobody waits for
  if (!PyErr_Occurred()) return PyErr_CheckSignals() != 0;
  const py::error_scope earlier;  // one is on its way already, while what it ended is cleaned up
  const bool stop = PyErr_CheckSignals() != 0;
  if (stop) PyErr_Clear();
  return stop;
}

std::shared_ptr<void> Share(const py::object& object) {
  return {object.inc_ref().ptr(), [](void* pointer) {
            if (const GilTaken gil; gil) Py_DECREF(static_cast<PyObject*>(pointer));
          }};
}

namespace {

using core::Config;
using core::Pool;

core::WorkerExecutor& WorkersOf(PoolHandle& pool) {
  if (auto* workers = pool->workers()) return *workers;
  throw core::PoolError("expected a pool with worker processes, got one without");
}

// Envs that Python works with, between __enter__ and __exit__: no other thread uses them meanwhile.
class ExclusiveAccess {
 public:
  ExclusiveAccess(py::object pool, std::vector<std::uint32_t> envs)
      : pool_(std::move(pool)), envs_(std::move(envs)) {}

  void Enter() {
    auto& pool = pool_.cast<PoolHandle&>();
    const GilReleased released;
    access_.emplace(*pool.operator->(), envs_, Interrupted);
  }
  void Exit(const py::args&) {
    const GilReleased released;
    access_.reset();
  }

 private:
  const py::object pool_;
  const std::vector<std::uint32_t> envs_;
  std::optional<Pool::ExclusiveAccess> access_;
};

}  // namespace

void InitPool(py::module_& m) {
  py::class_<PoolHandle> pool(m, "Pool", "All envs of a batch and the threads that step them.");
  py::class_<ExclusiveAccess>(m, "ExclusiveAccess",
                              "Envs that no other thread uses while Python works with them.")
      .def("__enter__", &ExclusiveAccess::Enter)
      .def("__exit__", &ExclusiveAccess::Exit);
  pool.def("__init__",
           Constructor<PoolHandle, const std::vector<std::shared_ptr<Config>>&,
                       const std::vector<std::int64_t>&, int, std::vector<int>, const core::LayoutOptions&,
                       const std::optional<double>&, const py::object&>(),
           kConstructs, py::kw_only(), py::arg("configs"), py::arg("max_episode_steps"),
           py::arg("num_threads"), py::arg("thread_affinity"), py::arg("layout"), py::arg("step_timeout"),
           py::arg("workers") = py::none())
      .def_property_readonly("num_threads", [](PoolHandle& pool) { return pool->num_threads(); })
      .def(
          "save",
          [](PoolHandle& handle, const std::vector<std::uint32_t>& envs) {
            std::vector<std::vector<std::uint8_t>> states;
            {
              const GilReleased released;
              states = handle->Save(envs, Interrupted);
            }
            py::list list(states.size());
            for (std::size_t i = 0; i < states.size(); ++i) {
              list[i] = py::bytes(reinterpret_cast<const char*>(states[i].data()), states[i].size());
            }
            return list;
          },
          py::arg("envs"), "The states of these envs, which ascend.")
      .def(
          "load",
          [](PoolHandle& handle, const std::vector<std::uint32_t>& envs,
             const std::vector<py::bytes>& given) {
            std::vector<std::vector<std::uint8_t>> states;
            for (const std::string_view state : given) states.emplace_back(state.begin(), state.end());
            const GilReleased released;
            handle->Load(envs, std::move(states), Interrupted);
          },
          py::arg("envs"), py::arg("states"))
      .def(
          "render_size", [](PoolHandle& handle, std::uint32_t env) { return handle->RenderSize(env); },
          py::arg("env"))
      .def(
          "render",
          [](PoolHandle& handle, const std::vector<std::uint32_t>& envs,
             const std::vector<std::uintptr_t>& addresses, const py::object& owner) {
            std::vector<std::uint8_t*> pictures;
            for (const std::uintptr_t address : addresses) {
              pictures.push_back(reinterpret_cast<std::uint8_t*>(address));
            }
            auto shared = Share(owner);
            const GilReleased released;
            handle->Render(envs, std::move(pictures), std::move(shared), Interrupted);
          },
          py::arg("envs"), py::arg("addresses"), py::arg("owner"))
      .def(
          "exclusive_access",
          [](const py::object& pool, std::vector<std::uint32_t> envs) {
            return Object(std::make_unique<ExclusiveAccess>(pool, std::move(envs)));
          },
          py::arg("envs"))
      .def(
          "ended_workers", [](PoolHandle& handle) { return WorkersOf(handle).Ended(); },
          py::call_guard<GilReleased>())
      .def(
          "replace_worker",
          [](PoolHandle& handle, int worker, int process) { WorkersOf(handle).Replace(worker, process); },
          py::arg("worker"), py::arg("process"))
      .def("close", &PoolHandle::Close, py::call_guard<GilReleased>())
      .def_property_readonly("is_closed", &PoolHandle::is_closed, "Or a parent's, in a forked child.")
      .def("check_not_within", &PoolHandle::CheckNotWithin,
           "Raises RuntimeError while the calling thread is within a call of this pool.");
}

}  // namespace torchrl_pool::bindings
