// The order in which jobs that are in flight together learn statistics: that of their submission. So what a
// collector learns from groups of envs does not depend on which of them is done first.
#ifndef TORCHRL_POOL_CORE_LEARNING_ORDER_H_
#define TORCHRL_POOL_CORE_LEARNING_ORDER_H_

#include <mutex>

#include "chain.h"
#include "job.h"

namespace torchrl_pool::core {

// A queue of jobs that threads of the pool finish by themselves, whoever waits for them: waiting for an
// earlier one always ends. All methods are safe from any thread, and allocate nothing.
class LearningOrder {
 public:
  // By its submitter, before the job is in flight. Jobs whose chain has one phase learn nothing.
  void Add(Job& job) {
    if (!job.chain || job.chain->num_phases() == 1 || job.envs.empty()) return;
    std::lock_guard lock(mutex_);
    job.has_turn = true;
    job.next_in_turn = nullptr;
    (last_ ? last_->next_in_turn : first_) = &job;
    last_ = &job;
  }

  // True: an earlier job is in flight. This one is stalled until Remove returns it.
  bool StallsUnlessFirst(Job& job) {
    if (!job.has_turn) return false;
    std::lock_guard lock(mutex_);
    if (first_ == &job) return false;
    job.is_stalled.store(true, std::memory_order_release);
    return true;
  }

  // The first job is about to finish; others do not before it. Returns the one whose turn it is then, if any.
  Job* Remove(Job& job) {
    if (!job.has_turn) return nullptr;
    std::lock_guard lock(mutex_);
    first_ = job.next_in_turn;
    if (!first_) last_ = nullptr;
    return first_;
  }

 private:
  std::mutex mutex_;
  Job *first_ = nullptr, *last_ = nullptr;  // first: submitted first
};

}  // namespace torchrl_pool::core

#endif  // TORCHRL_POOL_CORE_LEARNING_ORDER_H_
