// How long a thread has been inside a simulator, and who answers for the visit when that is too long.
#ifndef TORCHRL_POOL_CORE_VISIT_WATCH_H_
#define TORCHRL_POOL_CORE_VISIT_WATCH_H_

#include <chrono>
#include <cstdint>
#include <mutex>
#include <optional>
#include <utility>

#include "perturb.h"
#include "time_spent.h"

namespace torchrl_pool::core {

struct Job;

// One thread's: it says when a visit of an env begins and ends; any other thread may give the visit up. Of
// End and GiveUp exactly one succeeds for each visit, and whoever succeeds reports its result.
class VisitWatch {
 public:
  using Clock = std::chrono::steady_clock;

  struct Visit {
    Job* job;
    std::uint32_t env;
    std::int64_t step;  // as EnvFault's
  };

  // By the thread itself.
  void Begin(const Visit& visit) {
    const auto now = Clock::now();
    Perturb();
    std::lock_guard lock(mutex_);
    visit_ = visit;
    time_.Begin(now);
  }

  // By the thread itself. False: the visit was given up, and the thread is no longer one of the pool's.
  bool End() {
    Perturb();
    std::lock_guard lock(mutex_);
    return std::exchange(visit_, std::nullopt).has_value();
  }

  // By any other thread, which waits since then: gives up the visit that it is in, if that has exceeded the
  // limit by now.
  std::optional<Visit> GiveUp(Clock::duration limit, Clock::time_point now, Clock::time_point since) {
    Perturb();
    std::lock_guard lock(mutex_);
    if (!visit_ || !time_.Exceeds(limit, now, since)) return std::nullopt;
    return std::exchange(visit_, std::nullopt);
  }

 private:
  std::mutex mutex_;
  std::optional<Visit> visit_;  // that it is in
  TimeSpent time_;
};

}  // namespace torchrl_pool::core

#endif  // TORCHRL_POOL_CORE_VISIT_WATCH_H_
