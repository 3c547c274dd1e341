#include "threads/cost_model.h"

#include <algorithm>
#include <cmath>

#include "cpu.h"

namespace torchrl_pool::core {
namespace {

// A thread is given at least this much work: what it costs to hand work to a thread that is awake …
constexpr double kGrainNs = 12'000;
// … and to one that sleeps. Waking an idle core takes 25 µs of the caller's time and 40 µs until it runs.
constexpr double kWakeGrainNs = 75'000;
// Threads wait awake until the next call where calls follow each other sooner than this …
constexpr double kShortGapNs = 300'000;
// … and for so many times the usual gap.
constexpr double kGaps = 2;
// They surely are awake until shortly before the end of that time.
constexpr auto kDozing = std::chrono::microseconds(10);
// An env whose visit takes less than this does not sleep in it.
constexpr double kQuickNs = 1'000'000;
// The caller does not enter an env whose visit takes longer than this.
constexpr double kSlowNs = 10'000'000;
// To claim a chunk takes lines that other threads have, a microsecond in all. The last ones are short enough
// to even out the threads, and none keeps an interrupt waiting.
constexpr double kShortChunkNs = 5'000;
constexpr double kLongChunkNs = 40'000;

double Nanoseconds(CostModel::Clock::duration time) {
  return std::chrono::duration<double, std::nano>(time).count();
}

// A running mean. One long sample (the thread was not running, say) may at most double it.
void Average(std::atomic<double>& mean, double sample) {
  const double old = mean.load(std::memory_order_relaxed);
  sample = std::max(1.0, sample);
  mean.store(old <= 0 ? sample : old + (std::min(sample, 5 * old) - old) / 4, std::memory_order_relaxed);
}

}  // namespace

Plan CostModel::PlanFor(Work work, std::uint32_t num_envs) const {
  const double cost = CostOf(work);
  const int most = std::min(num_threads_, static_cast<int>(std::max(1u, num_envs)));
  if (cost <= 0 || cost > kSlowNs) return {most, false};
  // More threads than processors help envs that sleep; where all are quick they only get in each other's way.
  const int useful = cost < kQuickNs ? std::min(most, num_cpus_) : most;
  if (!IsWorthSharing(work, num_envs)) return {1, true};
  double shares = cost * num_envs / kGrainNs;
  // Whoever calls in a tight loop finds the threads awake, or wakes them for the calls that follow.
  const bool awake = Clock::now() - visits_ended_at_.load(std::memory_order_relaxed) < AwakeTime() - kDozing;
  if (!awake) shares *= kGrainNs / kWakeGrainNs;
  return {std::max(1, static_cast<int>(std::min(shares, static_cast<double>(useful)))), true};
}

bool CostModel::IsWorthSharing(Work work, std::uint32_t num_envs) const {
  const double cost = CostOf(work);
  return num_threads_ > 1 && num_envs > 1 && (cost <= 0 || cost * num_envs >= 2 * kGrainNs);
}

bool CostModel::IsWorthWaking(Work work, std::uint32_t num_envs) const {
  const double cost = CostOf(work);
  return num_envs > 0 && (cost <= 0 || cost * num_envs >= kWakeGrainNs);
}

ChunkSizes CostModel::ChunkSizesOf(Work work) const {
  const double cost = CostOf(work);
  if (cost <= 0) return {};
  const auto in = [&](double ns) { return static_cast<std::uint32_t>(std::clamp(ns / cost, 1.0, 4096.0)); };
  return {in(kShortChunkNs), in(kLongChunkNs)};
}

void CostModel::CallBegins(Clock::time_point now) {
  const auto ended_at = visits_ended_at_.load(std::memory_order_relaxed);
  if (ended_at != Clock::time_point()) Average(gap_ns_, Nanoseconds(now - ended_at));
}

CostModel::Clock::duration CostModel::AwakeTime() const {
  const double gap = gap_ns_.load(std::memory_order_relaxed);
  if (gap <= 0 || gap > kShortGapNs) return kAwake;
  return std::max<Clock::duration>(kAwake, std::chrono::nanoseconds(static_cast<std::int64_t>(kGaps * gap)));
}

void CostModel::Measure(Work work, std::uint32_t num_envs, Clock::duration time) {
  const double sample = Nanoseconds(time) / num_envs, old = CostOf(work);
  // All threads read it: written at each chunk, its line would wander between them.
  if (std::abs(sample - old) < old / 4) return;
  Average(cost_ns_[static_cast<std::size_t>(work)], sample);
}

}  // namespace torchrl_pool::core
