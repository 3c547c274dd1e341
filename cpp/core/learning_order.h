// The order in which jobs that are in flight together learn statistics: that of their submission. So what a
// collector learns from groups of envs does not depend on which of them is done first.
#ifndef TORCHRL_POOL_CORE_LEARNING_ORDER_H_
#define TORCHRL_POOL_CORE_LEARNING_ORDER_H_

#include <mutex>
#include <utility>

#include "chain.h"
#include "job.h"

namespace torchrl_pool::core {

// A queue of jobs, from their submission until they finish. The first one goes on as soon as its envs have
// been visited; the others stand still before they learn. A thread that waits for one of them works on those
// before it, too: so a wait ends whatever the order in which jobs are waited for. All methods are safe from
// any thread, and allocate nothing.
class LearningOrder {
 public:
  // By its submitter, before the job is in flight. Jobs whose chain has one phase learn nothing.
  void TakeTicket(Job& job) {
    if (job.chain->num_phases() == 1 || job.envs.empty()) return;
    const std::lock_guard lock(mutex_);
    job.has_ticket = true;
    job.may_learn = false;
    job.next_in_order = nullptr;
    (last_ ? last_->next_in_order : first_) = &job;
    last_ = &job;
  }

  // The phase that the job was in is over.
  void SetMayLearn(Job& job) {
    const std::lock_guard lock(mutex_);
    job.may_learn = true;
  }

  // The first job if it may learn, for the calling thread to go on with; else null.
  Job* Next() {
    const std::lock_guard lock(mutex_);
    return first_ && std::exchange(first_->may_learn, false) ? first_ : nullptr;
  }

  // The first job is about to finish.
  void RemoveFirst() {
    const std::lock_guard lock(mutex_);
    first_ = first_->next_in_order;
    if (!first_) last_ = nullptr;
  }

 private:
  std::mutex mutex_;
  Job *first_ = nullptr, *last_ = nullptr;  // first: submitted first
};

}  // namespace torchrl_pool::core

#endif  // TORCHRL_POOL_CORE_LEARNING_ORDER_H_
