// The loop that benchmarks compare a pool with.
#include <pybind11/stl.h>

#include "bare_loop.h"
#include "gil.h"
#include "module.h"

namespace py = pybind11;

namespace torchrl_pool::bindings {

void InitBareLoop(py::module_& m) {
  using core::BareLoop;
  py::class_<BareLoop>(m, "BareLoop", "Envs of one task, stepped by plain threads: no pool, no batches.")
      .def(py::init<std::shared_ptr<core::Config>, std::uint32_t, int, std::int64_t>(), py::kw_only(),
           py::arg("config"), py::arg("num_envs"), py::arg("num_threads"), py::arg("max_episode_steps"),
           py::call_guard<GilReleased>())
      .def(
          "run",
          [](BareLoop& loop, std::int64_t steps, const std::vector<std::uintptr_t>& actions,
             std::size_t num_rows) {
            const GilReleased released;
            BareLoop::Actions rows{.rows = {}, .num_rows = num_rows};
            for (const std::uintptr_t address : actions) {
              rows.rows.push_back(reinterpret_cast<const std::byte*>(address));
            }
            return loop.Run(steps, rows);
          },
          py::arg("steps"), py::arg("actions"), py::arg("num_rows"),
          "Steps each env so many times; actions: for each action of the task, the address of num_rows rows. "
          "Returns how many episodes ended.");
}

}  // namespace torchrl_pool::bindings
