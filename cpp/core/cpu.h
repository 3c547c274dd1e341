// What the machine, the affinity mask and the container's quota allow; and how threads wait.
#ifndef TORCHRL_POOL_CORE_CPU_H_
#define TORCHRL_POOL_CORE_CPU_H_

#include <chrono>
#include <string>

namespace torchrl_pool::core {

// Processors that this process may use: its affinity mask, capped by its cgroup's CPU quota (v1 or v2,
// rounded up), at least 1.
int AvailableCpus();

// AvailableCpus from explicit sources, for tests: the size of the affinity mask, and the roots of /proc and
// of the cgroup file system.
int AvailableCpus(int affinity, const std::string& proc_cgroup, const std::string& cgroup_root);

// Ties the calling thread to one processor. False where that is not possible.
bool PinThisThread(int cpu);

// How long a thread may wait without asking whether somebody wants it to stop.
constexpr auto kInterruptPeriod = std::chrono::milliseconds(20);

// Waking an idle core takes about 40 µs: who has waited that long in vain has lost no more by it.
constexpr auto kAwake = std::chrono::microseconds(60);

// As long as that is worth while what is waited for is Python's: a policy, or a few of its envs' steps.
constexpr auto kPatience = std::chrono::microseconds(200);

// Waiting without sleep, in two stages: a few pause instructions, then sched_yield, too, until a time is
// over. Spinning on pause alone collapses once threads outnumber cores. One object per wait.
//
// A time beyond kAwake ends as soon as somebody else had the processor: it is wanted.
class Backoff {
 public:
  // Where it is but a guess that something will come in this time, it is given up as soon as somebody else
  // had the processor.
  explicit Backoff(std::chrono::nanoseconds awake = kAwake, bool is_guess = false)
      : awake_(awake), is_guess_(is_guess) {}

  // False once the time for waiting awake is over, and the caller should sleep.
  bool Pause();
  // Whether it has come to its end before its time, since others want the processor.
  bool is_spoilt() const { return is_spoilt_; }

 private:
  using Clock = std::chrono::steady_clock;

  std::chrono::nanoseconds awake_;
  bool is_guess_, is_spoilt_ = false;
  int rounds_ = 0;
  Clock::time_point start_{}, last_{};
};

}  // namespace torchrl_pool::core

#endif  // TORCHRL_POOL_CORE_CPU_H_
