#include "spin_policy.h"

#include <algorithm>
#include <cstdint>

namespace torchrl_pool::core {
namespace {

// They spin until the next call where calls usually follow each other sooner than this, …
constexpr double kShortGapNs = 300'000;
// … and for so many times the usual gap.
constexpr double kGaps = 2;
// So long before the end of their time they may park at any moment.
constexpr auto kMayPark = std::chrono::microseconds(10);

}  // namespace

void SpinPolicy::Begins(Clock::time_point now) {
  const auto ended_at = ended_at_.load(std::memory_order_relaxed);
  if (ended_at == Clock::time_point()) return;
  gap_ns_.Add(std::chrono::duration<double, std::nano>(now - ended_at).count());
}

SpinPolicy::Clock::duration SpinPolicy::SpinTime() const {
  const double gap_ns = gap_ns_.value();
  if (gap_ns > kShortGapNs) return shortest_;
  const std::chrono::nanoseconds time(static_cast<std::int64_t>(kGaps * gap_ns));
  return std::max<Clock::duration>(shortest_, time);
}

bool SpinPolicy::IsSpinning(Clock::time_point now) const {
  return now - ended_at_.load(std::memory_order_relaxed) < SpinTime() - kMayPark;
}

}  // namespace torchrl_pool::core
