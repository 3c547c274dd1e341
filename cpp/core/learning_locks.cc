#include "learning_locks.h"

#include <semaphore.h>

#include <algorithm>
#include <array>
#include <thread>

#include "cpu.h"
#include "fork.h"

namespace torchrl_pool::core {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kPlaces = 64;
constexpr auto kFirstNap = std::chrono::microseconds(20), kLongestNap = std::chrono::microseconds(1000);

// By address: who shares statistics shares a lock, and hardly anybody else does.
ForkAwareLock& LockAt(std::size_t place) {
  static auto& locks = *new std::array<ForkAwareLock, kPlaces>;
  return locks[place];
}

template <class T>
void AddOnce(std::vector<T>& list, T value) {
  if (std::find(list.begin(), list.end(), value) == list.end()) list.push_back(value);
}

sem_t* SemaphoreOf(std::uintptr_t lock) { return reinterpret_cast<sem_t*>(lock); }

}  // namespace

void LearningLocks::Add(const Statistics& statistics) {
  AddOnce(places_, statistics.address / sizeof(double) % kPlaces);
  if (statistics.lock != 0) AddOnce(processes_, statistics.lock);
}

bool LearningLocks::Lock() {
  const auto end = Clock::now() + kInterruptPeriod;
  for (std::chrono::nanoseconds nap = kFirstNap; !TryLock();) {
    if (Clock::now() >= end) return false;
    std::this_thread::sleep_for(nap);
    nap = std::min<std::chrono::nanoseconds>(2 * nap, kLongestNap);
  }
  return true;
}

bool LearningLocks::TryLock() {
  const std::size_t all = places_.size() + processes_.size();
  for (; held_ < all; ++held_) {
    const bool is_free = held_ < places_.size()
                             ? LockAt(places_[held_]).TryLock()
                             : sem_trywait(SemaphoreOf(processes_[held_ - places_.size()])) == 0;
    if (is_free) continue;
    Unlock();
    return false;
  }
  return true;
}

void LearningLocks::Unlock() {
  while (held_ > 0) {
    --held_;
    if (held_ < places_.size()) {
      LockAt(places_[held_]).Unlock();
    } else {
      sem_post(SemaphoreOf(processes_[held_ - places_.size()]));
    }
  }
}

}  // namespace torchrl_pool::core
