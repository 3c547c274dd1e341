// What a forked child must not take over: locks that other threads of its parent held, and their threads.
#ifndef TORCHRL_POOL_CORE_FORK_H_
#define TORCHRL_POOL_CORE_FORK_H_

#include <atomic>

namespace torchrl_pool::core {

namespace internal {
extern std::atomic<unsigned> fork_generation;
}

// Grows by one in each forked child: what remembers another number was made by a parent.
inline unsigned ForkGeneration() { return internal::fork_generation.load(std::memory_order_relaxed); }

// A mutex of the whole process, which no child inherits locked. Nothing waits inside of it: who does not get
// it at once does something else, or tries again.
class ForkAwareLock {
 public:
  bool TryLock() {
    const unsigned mine = ForkGeneration() + 1;
    unsigned holder = holder_.load(std::memory_order_relaxed);
    return holder != mine && holder_.compare_exchange_strong(holder, mine, std::memory_order_acquire);
  }
  void Unlock() { holder_.store(0, std::memory_order_release); }

 private:
  std::atomic<unsigned> holder_{0};  // the generation of who holds it, plus one; 0: nobody
};

}  // namespace torchrl_pool::core

#endif  // TORCHRL_POOL_CORE_FORK_H_
