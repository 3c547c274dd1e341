#include "threads/cost_model.h"

#include <algorithm>
#include <cmath>

namespace torchrl_pool::core {
namespace {

// A thread is given at least this much work: what it costs to hand work to a thread that is awake …
constexpr double kGrainNs = 12'000;
// … and to one that sleeps. Waking an idle core takes 25 µs of the caller's time and 40 µs until it runs.
constexpr double kWakeGrainNs = 75'000;
// An env whose visit takes less than this does not sleep in it.
constexpr double kQuickNs = 1'000'000;
// The caller does not enter an env whose visit takes longer than this.
constexpr double kSlowNs = 10'000'000;
// To claim a chunk takes lines that other threads have, a microsecond in all. The last ones are short enough
// to even out the threads, and none keeps an interrupt waiting.
constexpr double kShortChunkNs = 5'000;
constexpr double kLongChunkNs = 40'000;

}  // namespace

Plan CostModel::PlanFor(Work work, std::uint32_t num_envs, int num_awake) const {
  const double cost = CostOf(work);
  const int most = std::min(num_threads_, static_cast<int>(std::max(1u, num_envs)));
  if (cost <= 0 || cost > kSlowNs) return {most, false};
  // More threads than processors help envs that sleep; where all are quick they only get in each other's way.
  const int useful = cost < kQuickNs ? std::min(most, num_cpus_) : most;
  if (!IsWorthSharing(work, num_envs)) return {1, true};
  const double total = cost * num_envs;
  const double shares = std::max(std::min<double>(total / kGrainNs, num_awake), total / kWakeGrainNs);
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

void CostModel::Measure(Work work, std::uint32_t num_envs, Clock::duration time) {
  const double sample = std::chrono::duration<double, std::nano>(time).count() / num_envs, old = CostOf(work);
  // All threads read it: written at each chunk, its line would wander between them.
  if (std::abs(sample - old) < old / 4) return;
  cost_ns_[static_cast<std::size_t>(work)].Add(sample);
}

}  // namespace torchrl_pool::core
