#include "cpu.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <sstream>
#include <thread>
#include <utility>

#ifdef __linux__
#include <pthread.h>
#include <sched.h>
#endif

namespace torchrl_pool::core {
namespace {

constexpr int kPauseRounds = 64;
constexpr int kPausesPerYield = 20;                      // half a microsecond
constexpr auto kShared = std::chrono::microseconds(10);  // a yield that took longer let others run

// A yield that took longer than this gave the processor to a CPU-bound thread, which keeps it for its whole
// time slice (milliseconds), while a parked thread that is woken is scheduled ahead of it. So after two such
// yields in a row (one may be an interrupt) this thread parks at once instead of yielding, for a while, and
// for longer each time that it finds the processor still contended.
constexpr auto kLostSlice = std::chrono::microseconds(300);
constexpr auto kInARow = std::chrono::milliseconds(20);
constexpr auto kFirstBan = std::chrono::milliseconds(100), kLongestBan = std::chrono::milliseconds(2000);

class YieldBan {
 public:
  using Clock = std::chrono::steady_clock;

  bool Holds(Clock::time_point now) const { return now < end_; }
  void LostSlice(Clock::time_point now) {
    if (now - std::exchange(last_lost_, now) > kInARow) return;
    const bool again = now - end_ < length_;
    length_ = again ? std::min<Clock::duration>(4 * length_, kLongestBan) : kFirstBan;
    end_ = now + length_;
  }

 private:
  Clock::duration length_{};
  Clock::time_point last_lost_{}, end_{};
};
// The model of thread-local memory: no thread's first look at it allocates, for where that fails the C
// library ends the process.
[[gnu::tls_model("initial-exec")]] thread_local YieldBan yield_ban;

void PauseInstruction() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

int AffinityCpus() {
#ifdef __linux__
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) return std::max(1, CPU_COUNT(&set));
#endif
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

// The quota of one cgroup directory in processors, or infinity.
double Quota(const std::string& directory) {
  double quota = 0, period = 0;
  std::string text;
  std::ifstream v2(directory + "/cpu.max");
  if (v2 >> text >> period) {
    if (text == "max") return INFINITY;
    quota = std::strtod(text.c_str(), nullptr);
  } else {
    std::ifstream(directory + "/cpu.cfs_quota_us") >> quota;
    std::ifstream(directory + "/cpu.cfs_period_us") >> period;
  }
  return quota > 0 && period > 0 ? quota / period : INFINITY;
}

// The tightest quota of a cgroup and all its parents: each of them binds.
double TightestQuota(const std::string& root, std::string path) {
  double quota = Quota(root);
  while (!path.empty() && path != "/") {
    quota = std::min(quota, Quota(root + path));
    const auto slash = path.find_last_of('/');
    path.resize(slash == std::string::npos ? 0 : slash);
  }
  return quota;
}

}  // namespace

int AvailableCpus() { return AvailableCpus(AffinityCpus(), "/proc/self/cgroup", "/sys/fs/cgroup"); }

int AvailableCpus(int affinity, const std::string& proc_cgroup, const std::string& cgroup_root) {
  double quota = INFINITY;
  std::ifstream lines(proc_cgroup);
  for (std::string line; std::getline(lines, line);) {
    // hierarchy:controllers:path, where version 2 has no controllers
    const auto first = line.find(':');
    const auto second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string path = line.substr(second + 1);
    std::istringstream controllers(line.substr(first + 1, second - first - 1));
    if (line.compare(0, 3, "0::") == 0) quota = std::min(quota, TightestQuota(cgroup_root, path));
    for (std::string name; std::getline(controllers, name, ',');) {
      if (name == "cpu") quota = std::min(quota, TightestQuota(cgroup_root + "/cpu", path));
    }
  }
  if (quota >= affinity) return affinity;
  return std::max(1, static_cast<int>(std::ceil(quota)));
}

bool PinThisThread(int cpu) {
#ifdef __linux__
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  return pthread_setaffinity_np(pthread_self(), sizeof set, &set) == 0;
#else
  (void)cpu;
  return false;
#endif
}

bool Spin::Pause() {
  if (rounds_ < kPauseRounds) {
    ++rounds_;
    PauseInstruction();
    return true;
  }
  const auto now = Clock::now();
  if (rounds_ == kPauseRounds) {
    ++rounds_;
    start_ = last_ = now;
  }
  const auto yielded = now - last_;
  if (yielded > kLostSlice) yield_ban.LostSlice(now);
  if (yield_ban.Holds(now)) return false;
  const bool is_shared = yielded > kShared;
  if (now - start_ >= (is_shared ? std::min<Clock::duration>(time_, kSpin) : time_)) return false;
  // Yields in a row take a tenth of the speed of a thread on the same core, and pauses nothing.
  for (int i = 0; i < kPausesPerYield; ++i) PauseInstruction();
  last_ = Clock::now();
  std::this_thread::yield();
  return true;
}

}  // namespace torchrl_pool::core
