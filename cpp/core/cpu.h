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

// How long it pays to spin before parking: waking a parked thread takes about 40 µs.
constexpr auto kSpin = std::chrono::microseconds(60);

// The same where the wait is for Python code: a policy between two calls, or a few steps of Python envs.
constexpr auto kSpinForPython = std::chrono::microseconds(300);

// One wait that spins: a few pause instructions, then sched_yield, too, until its time is over. Spinning on
// pause alone collapses once threads outnumber cores.
//
// A time beyond kSpin ends as soon as another thread had the processor: it is wanted.
class Spin {
 public:
  explicit Spin(std::chrono::nanoseconds time = kSpin) : time_(time) {}

  // False once the time is over, and the caller should park.
  bool Pause();

 private:
  using Clock = std::chrono::steady_clock;

  std::chrono::nanoseconds time_;
  int rounds_ = 0;
  Clock::time_point start_{}, last_{};
};

}  // namespace torchrl_pool::core

#endif  // TORCHRL_POOL_CORE_CPU_H_
