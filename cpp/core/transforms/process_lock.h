// What a transform keeps may be shared with other processes.
#ifndef TORCHRL_POOL_CORE_TRANSFORMS_PROCESS_LOCK_H_
#define TORCHRL_POOL_CORE_TRANSFORMS_PROCESS_LOCK_H_

#include <semaphore.h>

#include <cerrno>
#include <cstdint>

namespace torchrl_pool::core {

// A lock that other processes may hold: that of a multiprocessing.Lock or RLock. Null: none.
class ProcessLock {
 public:
  explicit ProcessLock(std::uintptr_t handle) : semaphore_(reinterpret_cast<sem_t*>(handle)) {
    while (semaphore_ && sem_wait(semaphore_) != 0 && errno == EINTR) {
    }
  }
  ~ProcessLock() {
    if (semaphore_) sem_post(semaphore_);
  }
  ProcessLock(const ProcessLock&) = delete;
  ProcessLock& operator=(const ProcessLock&) = delete;

 private:
  sem_t* const semaphore_;
};

}  // namespace torchrl_pool::core

#endif  // TORCHRL_POOL_CORE_TRANSFORMS_PROCESS_LOCK_H_
