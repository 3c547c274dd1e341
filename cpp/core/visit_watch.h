// How long a thread has been inside a simulator, and who answers for the visit when that is too long.
#ifndef TORCHRL_POOL_CORE_VISIT_WATCH_H_
#define TORCHRL_POOL_CORE_VISIT_WATCH_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>

#include "perturb.h"

namespace torchrl_pool::core {

struct Ticket;

// One thread's: it says when a visit of an env begins and ends; any other thread may give the visit up. Of
// End and GiveUp exactly one succeeds for each visit, and whoever succeeds reports its result.
class VisitWatch {
 public:
  using Clock = std::chrono::steady_clock;

  struct Visit {
    Ticket* ticket;
    std::uint32_t env;
    std::int64_t step;  // as EnvFault's
  };

  // By the thread itself.
  void Begin(const Visit& visit) {
    ticket_.store(visit.ticket, std::memory_order_relaxed);
    env_.store(visit.env, std::memory_order_relaxed);
    step_.store(visit.step, std::memory_order_relaxed);
    began_.store(Clock::now().time_since_epoch().count(), std::memory_order_relaxed);
    visit_ += 2;
    Perturb();
    state_.store(visit_ | kInside, std::memory_order_release);
  }

  // By the thread itself. False: the visit was given up, and the thread is no longer one of the pool's.
  bool End() {
    Perturb();
    std::uint64_t inside = visit_ | kInside;
    return state_.compare_exchange_strong(inside, visit_, std::memory_order_acq_rel);
  }

  // By any other thread: gives up the visit that it is in, if that began before this time.
  std::optional<Visit> GiveUp(Clock::time_point began_before) {
    std::uint64_t inside = state_.load(std::memory_order_acquire);
    if ((inside & kInside) == 0) return std::nullopt;
    if (began_.load(std::memory_order_relaxed) >= began_before.time_since_epoch().count())
      return std::nullopt;
    const Visit visit{ticket_.load(std::memory_order_relaxed), env_.load(std::memory_order_relaxed),
                      step_.load(std::memory_order_relaxed)};
    Perturb();
    // Fails if any of this belongs to a later visit.
    if (!state_.compare_exchange_strong(inside, kGivenUp, std::memory_order_acq_rel)) return std::nullopt;
    return visit;
  }

 private:
  static constexpr std::uint64_t kInside = 1;
  static constexpr std::uint64_t kGivenUp = 0;  // the number of no visit

  std::uint64_t visit_ = 0;  // the thread's own: twice the number of the visit
  std::atomic<std::uint64_t> state_{0};
  std::atomic<Ticket*> ticket_{nullptr};
  std::atomic<std::uint32_t> env_{0};
  std::atomic<std::int64_t> step_{0};
  std::atomic<Clock::rep> began_{0};
};

}  // namespace torchrl_pool::core

#endif  // TORCHRL_POOL_CORE_VISIT_WATCH_H_
