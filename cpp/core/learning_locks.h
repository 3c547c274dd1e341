// Statistics that stages learn may be shared with other chains, and with other processes.
#ifndef TORCHRL_POOL_CORE_LEARNING_LOCKS_H_
#define TORCHRL_POOL_CORE_LEARNING_LOCKS_H_

#include <cstdint>
#include <vector>

namespace torchrl_pool::core {

struct Statistics {
  std::uintptr_t address = 0;  // of what is learned
  std::uintptr_t lock = 0;     // the semaphore of a multiprocessing.Lock or RLock; 0: none
};

// The locks of some statistics, all of them or none. They are tried, and never slept on: another process may
// hold one for ever.
class LearningLocks {
 public:
  LearningLocks() = default;
  ~LearningLocks() { Unlock(); }
  LearningLocks(const LearningLocks&) = delete;
  LearningLocks& operator=(const LearningLocks&) = delete;

  void Add(const Statistics& statistics);
  // Tries for a while. False: another thread or process holds one of them.
  bool Lock();

 private:
  bool TryLock();
  void Unlock();

  std::vector<std::size_t> places_;        // in this process
  std::vector<std::uintptr_t> processes_;  // between processes
  std::size_t held_ = 0;                   // so many of all of them, the former first
};

}  // namespace torchrl_pool::core

#endif  // TORCHRL_POOL_CORE_LEARNING_LOCKS_H_
