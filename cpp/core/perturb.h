// A way to see orders of events that two cores hardly ever produce: built with TORCHRL_POOL_PERTURB, a thread
// may yield or sleep wherever threads meet.
#ifndef TORCHRL_POOL_CORE_PERTURB_H_
#define TORCHRL_POOL_CORE_PERTURB_H_

#ifdef TORCHRL_POOL_PERTURB
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <thread>
#endif

namespace torchrl_pool::core {

#ifdef TORCHRL_POOL_PERTURB

// Each thread's own stream of random numbers, from TORCHRL_POOL_PERTURB_SEED and the thread's number.
class Perturbation {
 public:
  Perturbation() {
    static std::atomic<std::uint64_t> threads{0};
    const char* seed = std::getenv("TORCHRL_POOL_PERTURB_SEED");
    state_ = (seed ? std::strtoull(seed, nullptr, 10) : 1) * 0x9e3779b97f4a7c15 + ++threads;
    for (int i = 0; i < 4; ++i) Draw();
  }

  void Act() {
    points_.fetch_add(1, std::memory_order_relaxed);
    const std::uint64_t draw = Draw() % 64;
    if (draw < 8) {
      std::this_thread::yield();
    } else if (draw == 8) {
      std::this_thread::sleep_for(std::chrono::microseconds(1 + Draw() % 200));
    }
  }

  // How often any thread has come by.
  static std::uint64_t points() { return points_.load(std::memory_order_relaxed); }

 private:
  std::uint64_t Draw() {  // xorshift64*
    state_ ^= state_ >> 12;
    state_ ^= state_ << 25;
    state_ ^= state_ >> 27;
    return (state_ * 0x2545f4914f6cdd1d) >> 32;
  }

  std::uint64_t state_;
  static inline std::atomic<std::uint64_t> points_{0};
};

// To be called between two accesses to what threads share.
inline void Perturb() {
  thread_local Perturbation perturbation;
  perturbation.Act();
}

#else

inline void Perturb() {}

#endif

}  // namespace torchrl_pool::core

#endif  // TORCHRL_POOL_CORE_PERTURB_H_
