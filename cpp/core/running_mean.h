// What something takes, by what it has taken so far.
#ifndef TORCHRL_POOL_CORE_RUNNING_MEAN_H_
#define TORCHRL_POOL_CORE_RUNNING_MEAN_H_

#include <algorithm>
#include <atomic>

namespace torchrl_pool::core {

// Of numbers above zero. Any threads; of two that add at once one may be lost.
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

}  // namespace torchrl_pool::core

#endif  // TORCHRL_POOL_CORE_RUNNING_MEAN_H_
