// A place to sleep until something that is checked without a lock may have changed.
#ifndef TORCHRL_POOL_CORE_EVENT_COUNT_H_
#define TORCHRL_POOL_CORE_EVENT_COUNT_H_

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>

#include "perturb.h"

namespace torchrl_pool::core {

// A sleeper calls PrepareWait, checks its condition once more, and then either CancelWait or Wait. Whoever
// makes the condition true calls Notify afterwards. Both sides order their two accesses with
// sequentially consistent operations, so at least one of them sees the other: no wake-up is lost.
// Notify costs two uncontended atomics while nobody sleeps. All methods are safe from any thread.
class EventCount {
 public:
  using Clock = std::chrono::steady_clock;

  std::uint32_t PrepareWait() {
    sleepers_.fetch_add(1, std::memory_order_seq_cst);
    Perturb();
    return epoch_.load(std::memory_order_seq_cst);
  }

  void CancelWait() { sleepers_.fetch_sub(1, std::memory_order_relaxed); }

  // Returns when notified since the PrepareWait that gave `key`, or after `timeout`.
  void Wait(std::uint32_t key, Clock::duration timeout) {
    Perturb();
    {
      std::unique_lock lock(mutex_);
      const auto deadline = Clock::now() + timeout;
      while (epoch_.load(std::memory_order_relaxed) == key) {
        Perturb();
        if (condition_.wait_until(lock, deadline) == std::cv_status::timeout) break;
      }
    }
    CancelWait();
  }

  // Whether a thread is parked, or is about to be; it may have changed already.
  bool HasSleepers() const { return sleepers_.load(std::memory_order_relaxed) > 0; }

  // Returns whether a thread was parked, or was about to be.
  bool Notify() {
    Perturb();
    epoch_.fetch_add(1, std::memory_order_seq_cst);
    Perturb();
    if (sleepers_.load(std::memory_order_seq_cst) == 0) return false;
    // A sleeper between its check of the epoch and its wait holds the mutex.
    {
      std::lock_guard lock(mutex_);
    }
    condition_.notify_all();
    return true;
  }

 private:
  std::atomic<std::uint32_t> epoch_{0};
  std::atomic<std::uint32_t> sleepers_{0};
  std::mutex mutex_;
  std::condition_variable condition_;
};

}  // namespace torchrl_pool::core

#endif  // TORCHRL_POOL_CORE_EVENT_COUNT_H_
