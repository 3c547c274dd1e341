// How work is shared, decided from what it has cost so far.
#ifndef TORCHRL_POOL_CORE_COST_MODEL_H_
#define TORCHRL_POOL_CORE_COST_MODEL_H_

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>

#include "ticket.h"

namespace torchrl_pool::core {

struct Plan {
  int threads;        // to hand work to, the caller's home queue included
  bool caller_helps;  // the caller runs envs itself; with one thread it then runs all, without any queue
};

// PlanFor and CallEnded: the thread in a call. All else: any thread.
class CostModel {
 public:
  using Clock = std::chrono::steady_clock;

  CostModel(int num_threads, int num_cpus) : num_threads_(num_threads), num_cpus_(num_cpus) {}

  // How to run one op of so many envs. The first op of a kind goes to the workers: nobody knows how long it
  // takes, and a caller that waits can be interrupted while one that is inside a simulator cannot. For the
  // same reason the caller leaves slow envs alone.
  Plan PlanFor(Op op, std::uint32_t num_envs) const;

  // Whether to wake a thread for so many envs that no other thread can begin at once.
  bool IsWorthWaking(Op op, std::uint32_t num_envs) const;

  // How many envs a thread takes at once.
  std::uint32_t ChunkSize(Op op) const;

  // One thread's time for this many envs.
  void Measure(Op op, std::uint32_t num_envs, Clock::duration time);

  void CallEnded() { call_ended_at_ = Clock::now(); }

 private:
  const int num_threads_;
  const int num_cpus_;
  std::array<std::atomic<double>, kNumOps> cost_ns_{};  // of one env's visit; 0: unknown
  Clock::time_point call_ended_at_{};
};

}  // namespace torchrl_pool::core

#endif  // TORCHRL_POOL_CORE_COST_MODEL_H_
