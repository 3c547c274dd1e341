// How calls follow each other, and how those who do their work spend the time between them.
#ifndef TORCHRL_POOL_CORE_RHYTHM_H_
#define TORCHRL_POOL_CORE_RHYTHM_H_

#include <atomic>
#include <chrono>

#include "cache_line.h"
#include "cpu.h"
#include "running_mean.h"

namespace torchrl_pool::core {

// Threads wait awake at first. Where little is done between two calls (what the caller does alone, a small
// policy) they do so until the next one, for to wake them would cost more than they take from a core that
// nobody wants. Where more is done they sleep, but for a while before and after the next call is expected.
//
// Any threads; of two that note something at once one may be lost.
class Rhythm {
 public:
  using Clock = std::chrono::steady_clock;

  // `least_awake`: for so long they wait awake in any case.
  explicit Rhythm(Clock::duration least_awake) : least_awake_(least_awake) {}

  // A call has begun, and its work is over: from then on the threads are idle.
  void Begins(Clock::time_point now);
  void Ended(Clock::time_point now) { ended_at_.store(now, std::memory_order_relaxed); }

  // For how long a thread that is idle now waits awake, …
  struct Wait {
    Clock::duration awake;
    bool is_guess;  // that the next call comes in this time
  };
  Wait WaitFrom(Clock::time_point now) const;
  // … and then asleep, unless it is woken before.
  Clock::duration NapTime(Clock::time_point now) const;

  // Whether calls follow each other so soon that threads are awake, or worth waking for those to come.
  bool IsQuick(Clock::time_point now) const;
  // Whether threads that have slept may be awake by now, since the next call is expected.
  bool IsExpected(Clock::time_point now) const;

 private:
  struct Window {
    Clock::time_point begin{}, end{};
  };
  // When the next call is expected. Empty: nobody sleeps until then, or for so long that to be woken is
  // nothing.
  Window NextCall(double gap_ns) const;
  Clock::duration QuickTime(double gap_ns) const;

  const Clock::duration least_awake_;
  [[maybe_unused]] Gap before_;
  std::atomic<Clock::time_point> ended_at_{};
  RunningMean gap_ns_;  // from the end of a call's work to the next call
  [[maybe_unused]] Gap after_;
};

// One thread's time without work.
class IdleTime {
 public:
  explicit IdleTime(const Rhythm& rhythm) : rhythm_(rhythm) {}

  // It has had something to do.
  void Worked() {
    if (is_waiting_ && wait_.is_guess) spoilt_in_a_row_ = 0;
    is_waiting_ = false;
    has_worked_ = true;
  }
  // Waits awake for a moment. False: the thread should sleep …
  bool Pause();
  // … for so long, unless it is woken before. Only who had work since the last time expects more. Where
  // others want the processor when the next call is expected, more and more calls are slept through.
  Rhythm::Clock::duration SleepTime();

 private:
  static constexpr int kMostSpoilt = 8;

  const Rhythm& rhythm_;
  Backoff backoff_;
  Rhythm::Wait wait_{};
  bool is_waiting_ = false, has_worked_ = false;
  int spoilt_in_a_row_ = 0;  // guesses
  int sleeps_through_ = 0;   // so many calls
};

}  // namespace torchrl_pool::core

#endif  // TORCHRL_POOL_CORE_RHYTHM_H_
