#include "rhythm.h"

#include <algorithm>
#include <cstdint>

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
constexpr auto kWakingUp = std::chrono::microseconds(80);
// They surely are awake until shortly before the end of a time.
constexpr auto kDozing = std::chrono::microseconds(10);

std::chrono::nanoseconds Nanoseconds(double count) {
  return std::chrono::nanoseconds(static_cast<std::int64_t>(count));
}

}  // namespace

void Rhythm::Begins(Clock::time_point now) {
  const auto ended_at = ended_at_.load(std::memory_order_relaxed);
  if (ended_at == Clock::time_point()) return;
  gap_ns_.Add(std::chrono::duration<double, std::nano>(now - ended_at).count());
}

Rhythm::Window Rhythm::NextCall() const {
  const double gap = gap_ns_.value();
  if (gap <= kShortGapNs || gap > kLongGapNs) return {};
  const auto expected = ended_at_.load(std::memory_order_relaxed) + Nanoseconds(gap);
  const auto tolerance = Nanoseconds(std::max(kTolerance * gap, kLeastToleranceNs));
  return {expected - tolerance, expected + tolerance};
}

Rhythm::Clock::duration Rhythm::AwakeTime(Clock::time_point now) const {
  const Window next = NextCall();
  if (next.Holds(now)) return next.end - now;
  const double gap = gap_ns_.value();
  return gap > kShortGapNs ? least_awake_ : std::max<Clock::duration>(least_awake_, Nanoseconds(kGaps * gap));
}

Rhythm::Clock::duration Rhythm::NapTime(Clock::time_point now) const {
  const Window next = NextCall();
  if (now >= next.begin || Backoff::IsInVain(now)) return std::chrono::hours(1);
  return next.begin - now;
}

bool Rhythm::AreAwake(Clock::time_point now) const {
  const Window next = NextCall();
  if (next.Holds(now)) return now - next.begin > kWakingUp && next.end - now > kDozing;
  return now - ended_at_.load(std::memory_order_relaxed) < AwakeTime(now) - kDozing;
}

}  // namespace torchrl_pool::core
