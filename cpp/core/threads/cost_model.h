// How work is shared, decided from what it has cost so far.
#ifndef TORCHRL_POOL_CORE_THREADS_COST_MODEL_H_
#define TORCHRL_POOL_CORE_THREADS_COST_MODEL_H_

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>

#include "cache_line.h"
#include "plan.h"

namespace torchrl_pool::core {

// What threads do: an op's visits, or a later phase of a job.
enum class Work { kCreate, kReset, kStep, kStepAndReset, kSteps, kSave, kLoad, kRender, kRoot, kRows };
constexpr int kNumWorks = kNumOps + 2;
constexpr Work VisitsOf(Op op) { return static_cast<Work>(op); }

// What something takes, by what it has taken so far: numbers above zero. Any threads; of two that add at once
// one may be lost.
class RunningMean {
 public:
  // 0: nothing is known.
  double value() const { return value_.load(std::memory_order_relaxed); }

  // One that is long (the thread was not running, say) may at most double it.
  void Add(double sample) {
    const double old = value();
    sample = std::max(1.0, sample);
    value_.store(old <= 0 ? sample : old + (std::min(sample, 5 * old) - old) / 4, std::memory_order_relaxed);
  }

 private:
  std::atomic<double> value_{0};
};

// Any threads.
class CostModel {
 public:
  using Clock = std::chrono::steady_clock;

  CostModel(int num_threads, int num_cpus) : num_threads_(num_threads), num_cpus_(num_cpus) {}

  // Whether there is work for more than one thread that is awake.
  bool IsWorthSharing(Work work, std::uint32_t num_envs) const;

  // How to do so many envs' work of a kind, where so many threads are awake. The first of a kind goes to the
  // other threads: its duration is unknown, and a caller that waits can be interrupted while one that is
  // inside a simulator cannot. For the same reason the caller leaves slow envs alone.
  Plan PlanFor(Work work, std::uint32_t num_envs, int num_awake) const;

  // Whether to wake a thread for so many envs that no other thread can begin at once.
  bool IsWorthWaking(Work work, std::uint32_t num_envs) const;

  // How many envs a thread takes at once.
  ChunkSizes ChunkSizesOf(Work work) const;

  // One thread's time for this many envs.
  void Measure(Work work, std::uint32_t num_envs, Clock::duration time);

 private:
  double CostOf(Work work) const { return cost_ns_[static_cast<std::size_t>(work)].value(); }

  Gap before_;
  const int num_threads_;
  const int num_cpus_;
  std::array<RunningMean, kNumWorks> cost_ns_{};  // of one env
  Gap after_;
};

}  // namespace torchrl_pool::core

#endif  // TORCHRL_POOL_CORE_THREADS_COST_MODEL_H_
