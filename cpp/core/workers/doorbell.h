#ifndef TORCHRL_POOL_CORE_WORKERS_DOORBELL_H_
#define TORCHRL_POOL_CORE_WORKERS_DOORBELL_H_

#include <atomic>
#include <chrono>
#include <cstdint>

#include "cache_line.h"

namespace torchrl_pool::core {

// What one process sleeps on and any other rings. The sleeper counts itself, looks again at what it waits
// for, and sleeps; who rings has changed that before. Both in sequentially consistent order: no ring is lost.
class Doorbell {
 public:
  // Returns the key for the wait that follows, or for none.
  std::uint32_t PrepareWait() {
    sleepers_.fetch_add(1, std::memory_order_seq_cst);
    return rings_.load(std::memory_order_seq_cst);
  }
  void CancelWait() { sleepers_.fetch_sub(1, std::memory_order_relaxed); }
  // Until it is rung, the time is over, or a signal has come.
  void Wait(std::uint32_t key, std::chrono::nanoseconds timeout);
  bool HasSleepers() const { return sleepers_.load(std::memory_order_seq_cst) > 0; }
  void Ring();
  // The process that slept on it has ended.
  void Forget() { sleepers_.store(0, std::memory_order_seq_cst); }

 private:
  alignas(kCacheLine) std::atomic<std::uint32_t> rings_{0};
  std::atomic<std::uint32_t> sleepers_{0};
};

}  // namespace torchrl_pool::core

#endif  // TORCHRL_POOL_CORE_WORKERS_DOORBELL_H_
