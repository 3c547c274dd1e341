// How calls follow each other, and how those who will do the work of the next one spend the time until then.
#ifndef TORCHRL_POOL_CORE_RHYTHM_H_
#define TORCHRL_POOL_CORE_RHYTHM_H_

#include <atomic>
#include <chrono>

#include "cache_line.h"
#include "cpu.h"
#include "running_mean.h"

namespace torchrl_pool::core {

// They wait awake at first. Where little is done between two calls (what the caller does alone, a small
// policy) they do so until the next one, for to wake them would cost more than they take from a core that
// nobody wants. Where more is done they sleep, but for a while before and after the next call is expected.
//
// Calls are noted by one thread at a time; any may ask.
class Rhythm {
 public:
  using Clock = std::chrono::steady_clock;

  // `least_awake`: for so long they wait awake in any case.
  explicit Rhythm(Clock::duration least_awake) : least_awake_(least_awake) {}

  // A call has begun, and its work is over: from then on the threads are idle.
  void Begins(Clock::time_point now);
  void Ended(Clock::time_point now) { ended_at_.store(now, std::memory_order_relaxed); }

  // A thread that is idle now waits awake for so long, unless others want its processor, …
  Clock::duration AwakeTime(Clock::time_point now) const;
  Backoff Wait(Clock::time_point now) const { return Backoff(AwakeTime(now), NextCall().Holds(now)); }
  // … and then asleep, unless it is woken before.
  Clock::duration NapTime(Clock::time_point now) const;
  // Whether idle threads surely are awake.
  bool AreAwake(Clock::time_point now) const;

 private:
  struct Window {
    Clock::time_point begin{}, end{};
    bool Holds(Clock::time_point now) const { return now >= begin && now < end; }
  };
  // When the next call is expected. Empty: nobody sleeps until then, or for so long that to be woken is
  // nothing.
  Window NextCall() const;

  const Clock::duration least_awake_;
  [[maybe_unused]] Gap before_;
  std::atomic<Clock::time_point> ended_at_{};
  RunningMean gap_ns_;  // from the end of a call's work to the next call
  [[maybe_unused]] Gap after_;
};

}  // namespace torchrl_pool::core

#endif  // TORCHRL_POOL_CORE_RHYTHM_H_
