// How long an operation has taken, measured by threads that look at it now and then.
#ifndef TORCHRL_POOL_CORE_TIME_SPENT_H_
#define TORCHRL_POOL_CORE_TIME_SPENT_H_

#include <algorithm>
#include <chrono>

#include "cpu.h"

namespace torchrl_pool::core {

// Waiting threads look often. Where there is more time between two looks, the whole process may have been
// stopped (Ctrl-Z, a suspended job, a paused container), and the operation with it: a tenth of the limit
// counts. Time in which no thread waited counts, but alone it never exceeds the limit.
class TimeSpent {
 public:
  using Clock = std::chrono::steady_clock;

  void Begin(Clock::time_point now) {
    spent_ = {};
    looked_at_ = now;
  }
  // Whether it has taken longer than the limit by now. `since`: when the looking thread has begun to wait.
  bool Exceeds(Clock::duration limit, Clock::time_point now, Clock::time_point since) {
    const Clock::duration most = std::max<Clock::duration>(limit / 10, 2 * kInterruptPeriod), none{0};
    spent_ += std::clamp(since - looked_at_, none, std::max(limit - most, most));
    spent_ += std::min(now - std::max(looked_at_, since), most);
    looked_at_ = now;
    return spent_ > limit;
  }

 private:
  Clock::duration spent_{};
  Clock::time_point looked_at_{};
};

}  // namespace torchrl_pool::core

#endif  // TORCHRL_POOL_CORE_TIME_SPENT_H_
