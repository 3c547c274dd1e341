// How long an operation has taken, measured by threads that look at it now and then.
#ifndef TORCHRL_POOL_CORE_TIME_SPENT_H_
#define TORCHRL_POOL_CORE_TIME_SPENT_H_

#include <algorithm>
#include <chrono>

#include "cpu.h"

namespace torchrl_pool::core {

// The time between two looks counts as a tenth of the limit at most: where it is longer, the whole process
// may have been stopped (Ctrl-Z, a suspended job, a paused container), and the operation with it.
class TimeSpent {
 public:
  using Clock = std::chrono::steady_clock;

  void Begin(Clock::time_point now) {
    spent_ = {};
    looked_at_ = now;
  }
  // Whether it has taken longer than the limit by now.
  bool Exceeds(Clock::duration limit, Clock::time_point now) {
    const Clock::duration most = std::max<Clock::duration>(limit / 10, 2 * kInterruptPeriod);
    spent_ += std::min(now - looked_at_, most);
    looked_at_ = now;
    return spent_ > limit;
  }

 private:
  Clock::duration spent_{};
  Clock::time_point looked_at_{};
};

}  // namespace torchrl_pool::core

#endif  // TORCHRL_POOL_CORE_TIME_SPENT_H_
