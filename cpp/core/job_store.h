// The jobs of a pool. They are reused and never freed while the pool lives, because a thread may still notify
// a job that has just finished.
#ifndef TORCHRL_POOL_CORE_JOB_STORE_H_
#define TORCHRL_POOL_CORE_JOB_STORE_H_

#include <algorithm>
#include <atomic>
#include <deque>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "job.h"
#include "perturb.h"

namespace torchrl_pool::core {

// All methods are safe from any thread.
class JobStore {
 public:
  explicit JobStore(const Layout& layout) : plain_(layout.chain) {
    for (const ActionColumn& column : layout.actions) actions_.AddColumn(column.row_bytes);
    for (const OutputColumn& column : layout.outputs) outputs_.AddColumn(column.row_bytes);
  }

  // A job with one user, to be filled in: its batches have the layout's columns, null bases, contiguous
  // strides.
  Job& Take(Op op) {
    Perturb();
    Job* job = spare_.exchange(nullptr, std::memory_order_acquire);
    if (!job) job = TakeAnother();
    Prepare(*job, op);
    return *job;
  }

  // Removes one user. The last one frees the job and returns its owner: releasing that may take other locks,
  // so the caller does it where it holds none.
  std::shared_ptr<void> Drop(Job& job) {
    if (job.users.fetch_sub(1, std::memory_order_acq_rel) > 1) return nullptr;
    std::shared_ptr<void> owner = std::move(job.owner);
    Perturb();
    Job* none = nullptr;
    if (!spare_.compare_exchange_strong(none, &job, std::memory_order_release)) {
      std::lock_guard lock(mutex_);
      free_.push_back(&job);
    }
    return owner;
  }

 private:
  Job* TakeAnother() {
    std::lock_guard lock(mutex_);
    if (free_.empty()) {
      free_.reserve(jobs_.size() + 1);  // so that Drop cannot fail
      return &jobs_.emplace_back();
    }
    Job* job = free_.back();
    free_.pop_back();
    return job;
  }

  void Prepare(Job& job, Op op) const {
    job.op = op;
    job.envs = {};
    job.completes_root = job.has_ticket = false;
    job.begins.clear();
    job.num_steps = 1;
    job.recorded.clear();
    job.entropy.clear();
    job.reset_options.clear();
    job.outbox = nullptr;
    job.reset_note = 0;
    job.order.clear();
    job.phase = Job::Phase::kVisits;
    job.resets.store(0, std::memory_order_relaxed);
    job.cancelled.store(false, std::memory_order_relaxed);
    job.finished.store(false, std::memory_order_relaxed);
    job.faults.clear();
    if (job.error) job.error = nullptr;
    job.users.store(1, std::memory_order_relaxed);
    if (std::exchange(job.chain, &plain_) != &plain_) return SetColumns(job);  // it is new, or had others
    for (Batch* batch : {&job.actions, &job.out, &job.root}) {
      std::fill(batch->base.begin(), batch->base.end(), nullptr);
    }
    if (!job.out.is_packed) job.out = outputs_;
  }

  void SetColumns(Job& job) const {
    job.actions = actions_;
    job.out = job.root = outputs_;
  }

  const Chain& plain_;
  Batch actions_, outputs_;           // that nobody has filled in
  std::atomic<Job*> spare_{nullptr};  // the free one that was used last, for calls that follow each other
  std::mutex mutex_;
  std::deque<Job> jobs_;
  std::vector<Job*> free_;
};

}  // namespace torchrl_pool::core

#endif  // TORCHRL_POOL_CORE_JOB_STORE_H_
