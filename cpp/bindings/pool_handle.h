// A pool as Python holds it, and its calls.
#ifndef TORCHRL_POOL_BINDINGS_POOL_HANDLE_H_
#define TORCHRL_POOL_BINDINGS_POOL_HANDLE_H_

#include <pybind11/pybind11.h>

#include <chrono>
#include <cstdint>
#include <functional>
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

  // Keeps what the pool's threads write to until they have ended.
  void Own(py::object owner) { owner_ = std::move(owner); }

  // The one way to it. A child that was forked has threads and worker processes of it no more: it is refused.
  core::Pool* operator->() {
    if (pool_->forked()) (void)pool_->workers();  // throws
    return pool_.get();
  }
  void Close() { pool_->Close(Interrupted); }  // nothing, in a child

 private:
  py::object owner_;
  std::unique_ptr<core::Pool> pool_;
};

// A job of a call, not yet submitted: `fill` completes it, and `owner` keeps the memory behind it alive
// until no thread can touch it. Without the GIL.
template <class FillJob>
core::Job& Begin(PoolHandle& pool, core::Op op, const std::shared_ptr<void>& owner, FillJob&& fill) {
  core::Job& job = pool->Begin(op);
  try {
    job.owner = owner;
    fill(job);
  } catch (...) {
    pool->Drop(job);
    throw;
  }
  return job;
}

// One call of the pool.
template <class FillJob>
std::uint32_t Run(PoolHandle& pool, core::Op op, std::uintptr_t mask, const py::object& owner, FillJob&& fill,
                  const std::function<void()>& meanwhile = nullptr) {
  const std::shared_ptr<void> shared = Share(owner);  // the last to let go, with the GIL
  const GilReleased released;
  core::Job& job = Begin(pool, op, shared, [&](core::Job& begun) {
    fill(begun);
    if (mask != 0) pool->Select(begun, reinterpret_cast<const std::uint8_t*>(mask));
  });
  pool->Submit(job, core::Pool::Await::kAtOnce, Interrupted);
  return pool->Wait(job, Interrupted, meanwhile);
}

}  // namespace torchrl_pool::bindings

#endif  // TORCHRL_POOL_BINDINGS_POOL_HANDLE_H_
