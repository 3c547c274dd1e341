// The pool's calls for one env, or in one line.
#ifndef TORCHRL_POOL_TESTS_CALLS_H_
#define TORCHRL_POOL_TESTS_CALLS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "pool.h"

namespace torchrl_pool::test {

inline bool NeverInterrupted() { return false; }
inline bool AlwaysInterrupted() { return true; }

inline std::vector<std::uint8_t> Save(core::Pool& pool, std::uint32_t env,
                                      core::Pool::InterruptCheck interrupted = NeverInterrupted) {
  return std::move(pool.Save(std::span(&env, 1), interrupted)[0]);
}

inline void Load(core::Pool& pool, std::uint32_t env, std::span<const std::uint8_t> state,
                 core::Pool::InterruptCheck interrupted = NeverInterrupted) {
  pool.Load(std::span(&env, 1), {{state.begin(), state.end()}}, interrupted);
}

inline void Render(core::Pool& pool, std::uint32_t env, std::uint8_t* rgb,
                   core::Pool::InterruptCheck interrupted = NeverInterrupted) {
  pool.Render(std::span(&env, 1), {rgb}, nullptr, interrupted);
}

// Row i of each of the actions is the i-th env's.
inline void Send(core::Pool& pool, core::Op op, std::span<const std::uint32_t> envs,
                 const std::byte* const* actions, bool alone, core::Pool::InterruptCheck interrupted,
                 std::shared_ptr<void> cargo = nullptr) {
  core::Job& job = pool.Begin(op);
  try {
    pool.Select(job, envs);
  } catch (...) {
    pool.Drop(job);
    throw;
  }
  for (std::size_t i = 0; core::IsStep(op) && i < job.actions.base.size(); ++i) {
    job.actions.base[i] = const_cast<std::byte*>(actions[i]);
  }
  job.is_single = alone;
  job.cargo = std::move(cargo);
  pool.Submit(job, core::Delivery::kOneByOne, interrupted);
}

inline void Take(core::Pool& pool, core::Outbox::Received received, std::byte* const* out,
                 std::byte* const* root) {
  pool.CopyRowsOf(received, out, root);
  pool.Accept(received);
}

}  // namespace torchrl_pool::test

#endif  // TORCHRL_POOL_TESTS_CALLS_H_
