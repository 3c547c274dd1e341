#include "rhythm.h"

#include <algorithm>
#include <cstdint>
#include <utility>

namespace torchrl_pool::core {
namespace {

// They wait awake until the next call where calls follow each other sooner than this …
constexpr double kShortGapNs = 300'000;
// … and for so many times the usual gap.
constexpr double kGaps = 2;
// Of gaps up to this one it is still worth while that nobody has to be woken after them.
constexpr double kLongGapNs = 3'000'000;
// A call is expected so much sooner or later than usual: a part of the gap, and not less than it takes to
// wake up by a timer.
constexpr double kTolerance = 0.125, kLeastToleranceNs = 150'000;
// They surely are awake until shortly before the end of a time.
constexpr auto kDozing = std::chrono::microseconds(10);
constexpr auto kForGood = std::chrono::hours(1);

std::chrono::nanoseconds Nanoseconds(double count) {
  return std::chrono::nanoseconds(static_cast<std::int64_t>(count));
}

}  // namespace

void Rhythm::Begins(Clock::time_point now) {
  const auto ended_at = ended_at_.load(std::memory_order_relaxed);
  if (ended_at == Clock::time_point()) return;
  gap_ns_.Add(std::chrono::duration<double, std::nano>(now - ended_at).count());
}

Rhythm::Window Rhythm::NextCall(double gap_ns) const {
  if (gap_ns <= kShortGapNs || gap_ns > kLongGapNs) return {};
  const auto expected = ended_at_.load(std::memory_order_relaxed) + Nanoseconds(gap_ns);
  const auto tolerance = Nanoseconds(std::max(kTolerance * gap_ns, kLeastToleranceNs));
  return {expected - tolerance, expected + tolerance};
}

Rhythm::Clock::duration Rhythm::QuickTime(double gap_ns) const {
  if (gap_ns > kShortGapNs) return least_awake_;
  return std::max<Clock::duration>(least_awake_, Nanoseconds(kGaps * gap_ns));
}

Rhythm::Wait Rhythm::WaitFrom(Clock::time_point now) const {
  const double gap_ns = gap_ns_.value();
  const Window next = NextCall(gap_ns);
  if (now + least_awake_ >= next.begin && now < next.end) return {next.end - now, true};
  return {QuickTime(gap_ns), false};
}

Rhythm::Clock::duration Rhythm::NapTime(Clock::time_point now) const {
  const Window next = NextCall(gap_ns_.value());
  return now < next.begin ? next.begin - now : kForGood;
}

bool Rhythm::IsQuick(Clock::time_point now) const {
  return now - ended_at_.load(std::memory_order_relaxed) < QuickTime(gap_ns_.value()) - kDozing;
}

bool Rhythm::IsExpected(Clock::time_point now) const {
  const Window next = NextCall(gap_ns_.value());
  return now >= next.begin && now < next.end;
}

bool IdleTime::Pause() {
  if (!is_waiting_) {
    wait_ = rhythm_.WaitFrom(Rhythm::Clock::now());
    backoff_ = Backoff(wait_.awake, wait_.is_guess);
    is_waiting_ = true;
  }
  if (backoff_.Pause()) return true;
  is_waiting_ = false;
  if (wait_.is_guess) {
    spoilt_in_a_row_ = backoff_.is_spoilt() ? std::min(spoilt_in_a_row_ + 1, kMostSpoilt) : 0;
    sleeps_through_ = (1 << spoilt_in_a_row_) - 1;
  }
  return false;
}

Rhythm::Clock::duration IdleTime::SleepTime() {
  if (!std::exchange(has_worked_, false)) return kForGood;
  if (sleeps_through_ == 0) return rhythm_.NapTime(Rhythm::Clock::now());
  --sleeps_through_;
  return kForGood;
}

}  // namespace torchrl_pool::core
