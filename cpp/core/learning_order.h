// The order in which jobs that are in flight together learn statistics: that of their submission. So what a
// collector learns from groups of envs does not depend on which of them is done first.
#ifndef TORCHRL_POOL_CORE_LEARNING_ORDER_H_
#define TORCHRL_POOL_CORE_LEARNING_ORDER_H_

#include <algorithm>
#include <mutex>
#include <vector>

#include "chain.h"
#include "job.h"

namespace torchrl_pool::core {

// Of jobs that threads of the pool finish by themselves, whoever waits for them: waiting for an earlier one
// always ends. All methods are safe from any thread.
class LearningOrder {
 public:
  // By its submitter, before the job is in flight. Jobs whose chain has one phase learn nothing.
  void Add(Job& job) {
    if (!job.chain || job.chain->num_phases() == 1 || job.envs.empty()) return;
    std::lock_guard lock(mutex_);
    in_flight_.push_back(&job);
    job.has_turn = true;
  }

  // True: an earlier job is in flight. This one is stalled until Remove returns it.
  bool StallsUnlessFirst(Job& job) {
    if (!job.has_turn) return false;
    std::lock_guard lock(mutex_);
    if (in_flight_.front() == &job) return false;
    job.is_stalled.store(true, std::memory_order_release);
    return true;
  }

  // The job is about to finish. Returns the one whose turn it is then, if any.
  Job* Remove(Job& job) {
    if (!job.has_turn) return nullptr;
    std::lock_guard lock(mutex_);
    std::erase(in_flight_, &job);
    return in_flight_.empty() ? nullptr : in_flight_.front();
  }

 private:
  std::mutex mutex_;
  std::vector<Job*> in_flight_;  // the first one submitted first
};

}  // namespace torchrl_pool::core

#endif  // TORCHRL_POOL_CORE_LEARNING_ORDER_H_
