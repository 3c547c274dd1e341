// The queue of work of one thread, from which idle threads may take too.
#ifndef TORCHRL_POOL_CORE_HOME_QUEUE_H_
#define TORCHRL_POOL_CORE_HOME_QUEUE_H_

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "perturb.h"

namespace torchrl_pool::core {

constexpr std::size_t kCacheLine = 64;

// A run of consecutive envs that one thread steps in one go, for one ticket.
struct Chunk {
  std::uint32_t ticket;  // 16 bits
  std::uint32_t first;   // 24 bits
  std::uint32_t count;   // 24 bits
};
constexpr std::uint32_t kMaxTickets = 1u << 16;
constexpr std::uint32_t kMaxEnvs = (1u << 24) - 1;

// A bounded ring. Push: one thread at a time. Pop: any thread.
//
// An env is in at most one chunk at a time, so a ring with a slot per env never overflows. head_ and
// tail_ only grow, which is what makes Pop's compare-and-swap safe: an entry can be overwritten only
// after head_ has passed it, and then the swap of whoever read it fails.
class HomeQueue {
 public:
  explicit HomeQueue(std::uint32_t num_envs)
      : mask_(std::bit_ceil(std::uint64_t{num_envs}) - 1),
        entries_(std::make_unique<std::atomic<std::uint64_t>[]>(mask_ + 1)) {}

  void Push(const Chunk& chunk) {
    const std::uint64_t tail = tail_.load(std::memory_order_relaxed);
    entries_[tail & mask_].store(Pack(chunk), std::memory_order_relaxed);
    Perturb();
    tail_.store(tail + 1, std::memory_order_release);
  }

  bool Pop(Chunk* chunk) {
    std::uint64_t head = head_.load(std::memory_order_acquire);
    while (head < tail_.load(std::memory_order_acquire)) {
      const std::uint64_t entry = entries_[head & mask_].load(std::memory_order_relaxed);
      Perturb();
      if (head_.compare_exchange_weak(head, head + 1, std::memory_order_acq_rel, std::memory_order_acquire)) {
        *chunk = Unpack(entry);
        return true;
      }
    }
    return false;
  }

  bool empty() const {
    return head_.load(std::memory_order_acquire) >= tail_.load(std::memory_order_acquire);
  }

 private:
  static std::uint64_t Pack(const Chunk& chunk) {
    return static_cast<std::uint64_t>(chunk.ticket) << 48 | static_cast<std::uint64_t>(chunk.first) << 24 |
           chunk.count;
  }
  static Chunk Unpack(std::uint64_t entry) {
    return {static_cast<std::uint32_t>(entry >> 48), static_cast<std::uint32_t>(entry >> 24) & kMaxEnvs,
            static_cast<std::uint32_t>(entry) & kMaxEnvs};
  }

  const std::uint64_t mask_;
  const std::unique_ptr<std::atomic<std::uint64_t>[]> entries_;
  alignas(kCacheLine) std::atomic<std::uint64_t> head_{0};
  alignas(kCacheLine) std::atomic<std::uint64_t> tail_{0};
};

}  // namespace torchrl_pool::core

#endif  // TORCHRL_POOL_CORE_HOME_QUEUE_H_
