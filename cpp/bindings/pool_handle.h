// A pool as Python holds it, and its calls.
#ifndef TORCHRL_POOL_BINDINGS_POOL_HANDLE_H_
#define TORCHRL_POOL_BINDINGS_POOL_HANDLE_H_

#include <pybind11/pybind11.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "errors.h"
#include "gil.h"
#include "module.h"
#include "pool.h"

namespace torchrl_pool::bindings {

namespace py = pybind11;

// No value for what lasts for ever: longer than a year, which would overflow.
std::optional<core::Outbox::Clock::duration> ToDuration(const std::optional<double>& seconds);

// Owns a Pool, except that a forked child must not touch the one it inherited.
class PoolHandle {
 public:
  PoolHandle(const std::vector<std::shared_ptr<core::Config>>& configs,
             const std::vector<std::int64_t>& max_episode_steps, int num_threads,
             std::vector<int> thread_affinity, const core::LayoutOptions& layout,
             const std::optional<double>& step_timeout, const py::object& workers);
  ~PoolHandle();

  // Keeps the memory that results of asynchronous calls are written to until the pool's threads have ended.
  void Own(std::shared_ptr<void> async_memory) { async_memory_ = std::move(async_memory); }
  bool is_prepared() const { return async_memory_ != nullptr; }

  // The one way to it. A child that was forked has threads and worker processes of it no more: it is refused.
  core::Pool* operator->() {
    if (pool_->forked()) (void)pool_->workers();  // throws
    return pool_.get();
  }
  void Close() { pool_->Close(Interrupted); }  // nothing, in a child
  bool is_closed() const { return pool_->is_closed(); }
  void CheckNotWithin() const { pool_->CheckNotWithin(); }
  // Nobody will wait for this job: nothing, in a child.
  void Abandon(core::Job& job) { pool_->Abandon(job); }
  bool PutBack(const core::Outbox::Received& received) { return pool_->PutBack(received); }

 private:
  std::shared_ptr<void> async_memory_;
  std::unique_ptr<core::Pool> pool_;
};

}  // namespace torchrl_pool::bindings

#endif  // TORCHRL_POOL_BINDINGS_POOL_HANDLE_H_
