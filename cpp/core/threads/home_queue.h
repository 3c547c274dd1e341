// The queue of work of one thread, from which idle threads may take too.
#ifndef TORCHRL_POOL_CORE_THREADS_HOME_QUEUE_H_
#define TORCHRL_POOL_CORE_THREADS_HOME_QUEUE_H_

#include <atomic>
#include <bit>
#include <cstdint>
#include <memory>
#include <mutex>

#include "cache_line.h"
#include "perturb.h"
#include "plan.h"

namespace torchrl_pool::core {

struct Job;

// What one thread takes of a job's work in one go: `count` envs, from the `first` of its list on.
struct Chunk {
  Job* job = nullptr;
  std::uint32_t first = 0, count = 0;
  bool stays_home = false;  // not for other threads
};

// A bounded ring. All methods are safe from any thread.
//
// An env is in at most one chunk at a time and no chunk is empty, so a ring with a slot per env of its home
// never overflows. head_ and tail_ only grow, which is what makes Pop's compare-and-swap safe: an entry can
// be overwritten only after head_ has passed it, and then the swap of whoever read it fails.
class HomeQueue {
 public:
  explicit HomeQueue(std::uint32_t num_envs)
      : mask_(std::bit_ceil(std::uint64_t{num_envs}) - 1), entries_(std::make_unique<Entry[]>(mask_ + 1)) {}

  // Cuts `count` envs of a job, from the `first` of its list on, into chunks.
  void Push(Chunk rest, ChunkSizes sizes) {
    std::lock_guard lock(push_mutex_);
    std::uint64_t tail = tail_.load(std::memory_order_relaxed);
    while (rest.count > 0) {
      Chunk chunk = rest;
      chunk.count = sizes.Of(rest.count);
      entries_[tail & mask_].Store(chunk);
      rest.first += chunk.count;
      rest.count -= chunk.count;
      Perturb();
      tail_.store(++tail, std::memory_order_release);
    }
  }

  // The oldest chunk. A thief is a thread with another home.
  bool Pop(Chunk* chunk, bool is_thief) {
    std::uint64_t head = head_.load(std::memory_order_acquire);
    while (head < tail_.load(std::memory_order_acquire)) {
      const Chunk entry = entries_[head & mask_].Load();
      Perturb();
      if (is_thief && entry.stays_home && head == head_.load(std::memory_order_acquire)) return false;
      if (head_.compare_exchange_weak(head, head + 1, std::memory_order_acq_rel, std::memory_order_acquire)) {
        *chunk = entry;
        return true;
      }
    }
    return false;
  }

  bool empty() const {
    return head_.load(std::memory_order_acquire) >= tail_.load(std::memory_order_acquire);
  }

 private:
  // Read while it may be overwritten: then what was read is thrown away.
  struct Entry {
    static constexpr std::uint64_t kStaysHome = 1u << 31;

    void Store(const Chunk& chunk) {
      job.store(chunk.job, std::memory_order_relaxed);
      envs.store(std::uint64_t{chunk.first} << 32 | (chunk.stays_home ? kStaysHome : 0) | chunk.count,
                 std::memory_order_relaxed);
    }
    Chunk Load() const {
      const std::uint64_t bits = envs.load(std::memory_order_relaxed);
      return {job.load(std::memory_order_relaxed), static_cast<std::uint32_t>(bits >> 32),
              static_cast<std::uint32_t>(bits & (kStaysHome - 1)), (bits & kStaysHome) != 0};
    }

    std::atomic<Job*> job{nullptr};
    std::atomic<std::uint64_t> envs{0};
  };

  const std::uint64_t mask_;
  const std::unique_ptr<Entry[]> entries_;
  std::mutex push_mutex_;
  alignas(kCacheLine) std::atomic<std::uint64_t> head_{0};
  alignas(kCacheLine) std::atomic<std::uint64_t> tail_{0};
};

}  // namespace torchrl_pool::core

#endif  // TORCHRL_POOL_CORE_THREADS_HOME_QUEUE_H_
