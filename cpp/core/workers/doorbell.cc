#include "workers/doorbell.h"

#ifdef __linux__
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <ctime>
#else
#include <algorithm>
#include <thread>
#endif

namespace torchrl_pool::core {

#ifdef __linux__

void Doorbell::Wait(std::uint32_t key, std::chrono::nanoseconds timeout) {
  const timespec time{static_cast<std::time_t>(timeout.count() / 1'000'000'000),
                      timeout.count() % 1'000'000'000};
  syscall(SYS_futex, &rings_, FUTEX_WAIT, key, &time, nullptr, 0);
  CancelWait();
}

void Doorbell::Ring() {
  rings_.fetch_add(1, std::memory_order_seq_cst);
  if (HasSleepers()) syscall(SYS_futex, &rings_, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

#else

// Where nothing public wakes a thread of another process, the sleeper looks now and then.
constexpr std::chrono::nanoseconds kLookEvery = std::chrono::microseconds(100);

void Doorbell::Wait(std::uint32_t key, std::chrono::nanoseconds timeout) {
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + timeout;
  while (rings_.load(std::memory_order_seq_cst) == key && Clock::now() < end) {
    std::this_thread::sleep_for(std::min(kLookEvery, timeout));
  }
  CancelWait();
}

void Doorbell::Ring() { rings_.fetch_add(1, std::memory_order_seq_cst); }

#endif

}  // namespace torchrl_pool::core
