#include "pool_handle.h"

#include <pybind11/stl.h>

namespace torchrl_pool::bindings {

using core::Pool;

// No value for what lasts for ever: longer than a year, which would overflow.
std::optional<core::Outbox::Clock::duration> ToDuration(const std::optional<double>& seconds) {
  if (!seconds || *seconds >= 3e7) return std::nullopt;
  return std::chrono::duration_cast<core::Outbox::Clock::duration>(std::chrono::duration<double>(*seconds));
}

PoolHandle::PoolHandle(const std::vector<std::shared_ptr<core::Config>>& configs,
                       const std::vector<std::int64_t>& max_episode_steps, int num_threads,
                       std::vector<int> thread_affinity, const core::LayoutOptions& layout,
                       const std::optional<double>& step_timeout, const py::object& workers) {
  std::vector<core::EnvRequest> envs;
  for (std::size_t i = 0; i < configs.size(); ++i) envs.push_back({configs[i], max_episode_steps.at(i)});
  core::PoolOptions options;
  options.layout = layout;
  if (workers.is_none()) {
    options.threads.num_threads = num_threads;
    options.threads.thread_affinity = std::move(thread_affinity);
    options.threads.step_timeout = ToDuration(step_timeout);
  } else {
    options.workers = ToWorkerOptions(workers);
    options.workers->step_timeout = ToDuration(step_timeout);
  }
  {
    const GilReleased released;
    pool_ = Pool::Open(std::move(envs), options, Interrupted);
  }
}

PoolHandle::~PoolHandle() {
  const py::error_scope pending;  // this may run while an exception is on its way
  bool freed = false;
  try {
    const GilReleased released;
    freed = Pool::Retire(std::move(pool_), Interrupted);
  } catch (const core::Interrupted&) {
    PyErr_WriteUnraisable(nullptr);
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
    PyErr_WriteUnraisable(nullptr);
  }
  if (!freed) (void)new std::shared_ptr<void>(std::move(async_memory_));  // for ever
}

}  // namespace torchrl_pool::bindings
