// How long idle threads spin before they park.
#ifndef TORCHRL_POOL_CORE_SPIN_POLICY_H_
#define TORCHRL_POOL_CORE_SPIN_POLICY_H_

#include <atomic>
#include <chrono>

#include "cache_line.h"
#include "running_mean.h"

namespace torchrl_pool::core {

// Idle threads spin, then park. Waking a parked thread costs about 40 µs, so where the next call usually
// comes soon after the last one (the caller does little between them) they spin until it comes.
//
// Any threads; of two that note something at once one may be lost.
class SpinPolicy {
 public:
  using Clock = std::chrono::steady_clock;

  explicit SpinPolicy(Clock::duration shortest) : shortest_(shortest) {}

  // A call has begun; its work has ended, and from then on the threads are idle.
  void Begins(Clock::time_point now);
  void Ended(Clock::time_point now) { ended_at_.store(now, std::memory_order_relaxed); }

  // For how long a thread that becomes idle spins.
  Clock::duration SpinTime() const;
  // Whether the threads still spin after the last call.
  bool IsSpinning(Clock::time_point now) const;

 private:
  const Clock::duration shortest_;
  [[maybe_unused]] Gap before_;
  std::atomic<Clock::time_point> ended_at_{};
  RunningMean gap_ns_;  // from the end of a call's work to the next call
  [[maybe_unused]] Gap after_;
};

}  // namespace torchrl_pool::core

#endif  // TORCHRL_POOL_CORE_SPIN_POLICY_H_
