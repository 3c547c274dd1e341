// What was sent and not yet received: results wait here until somebody asks for them.
#ifndef TORCHRL_POOL_CORE_OUTBOX_H_
#define TORCHRL_POOL_CORE_OUTBOX_H_

#include <array>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "errors.h"
#include "job.h"

namespace torchrl_pool::core {

// Who delivers: some only while somebody who waits for results works for them.
class Deliverer {
 public:
  using Clock = std::chrono::steady_clock;

  virtual std::uint64_t Deliveries() const { return 0; }
  // Gives up visits that take longer than the step timeout, and wakes whoever has work that waits. To be
  // called now and then by whoever waits.
  virtual void LookAfterWork() = 0;
  // Works, or lets another thread work, until more has been delivered than at the time of this number of
  // deliveries, or until the time is over. False, at once, where there are threads that work by themselves.
  virtual bool WorkUntil(std::uint64_t, Clock::time_point) { return false; }

 protected:
  ~Deliverer() = default;
};

// Every result is received exactly once, unless it is put back. Methods are safe from any thread.
//
// An env is sent either as one of many, and then received with whichever are ready first, or by itself, and
// then received by its index alone: the two kinds do not mix, and each is counted per operation.
class Outbox {
 public:
  // Asked now and then while waiting, without a lock held; true gives the wait up.
  using InterruptCheck = bool (*)();
  using Clock = std::chrono::steady_clock;

  struct Received {
    Op op = Op::kReset;
    bool alone = false;
    std::vector<std::uint32_t> envs;   // ascending
    std::vector<std::uint8_t> resets;  // per env: whether kStepAndReset has started a new episode
    std::vector<EnvFault> faults;      // envs that failed; then `envs` is empty: they wait for the next call
  };

  Outbox(std::uint32_t num_envs, Deliverer& deliverer);

  // Ends all waiting, now and from now on, with a PoolError.
  void Close();

  // Before the work of these envs is published.
  void Expect(Op op, std::span<const std::uint32_t> envs, bool alone);

  // By the thread that has visited these envs: all that there is to say about them, in one go. The faults are
  // those of the results kFailed. Where there is no memory for them it throws, and nothing is delivered.
  void Deliver(Op op, std::span<const std::uint32_t> envs, std::span<const Result> results,
               std::vector<EnvFault>& faults);

  // The same of envs that an exception was in the way of, such as the lack of memory. It waits for what
  // little memory it takes to say so.
  void DeliverLost(Op op, std::span<const std::uint32_t> envs) noexcept;

  // Received and not taken after all: as if they had just been delivered.
  void PutBack(const Received& received);

  // Waits for at least `least` results, until `timeout` if there is one, and takes what is ready, up to
  // `most` (0: no limit); with a timeout it goes on waiting for more until then. Takes nothing and returns no
  // value when the time is over before. Throws PoolError where fewer than `least` are outstanding, and
  // Interrupted.
  std::optional<Received> Receive(Op op, std::size_t least, std::size_t most,
                                  std::optional<Clock::duration> timeout, InterruptCheck interrupted);
  // The same for one env that was sent by itself.
  std::optional<Received> ReceiveAlone(Op op, std::uint32_t env, std::optional<Clock::duration> timeout,
                                       InterruptCheck interrupted);

 private:
  // What was sent with others.
  struct Queue {
    std::size_t outstanding = 0;       // not yet received
    std::vector<std::uint32_t> ready;  // with room for all envs: to deliver takes no memory
    std::vector<EnvFault> faults;
    std::vector<std::size_t> awaited;  // by each thread that waits: how many results, or else all that are
                                       // outstanding; 0: one env's, by itself
  };
  enum class How : std::uint8_t { kWithOthers, kAlone, kAloneAndReady };
  struct Sent {
    How how = How::kWithOthers;  // received, too
    Op op = Op::kReset;
    Result result = Result::kOk;
  };

  // Whether any thread that waits can go on. Waking one for each of 32 results would cost more than they do.
  static bool WakesSomebody(const Queue& queue);

  // Under mutex_: waits until `enough` holds. False: the time is over.
  template <class Enough>
  bool WaitUntil(std::unique_lock<std::mutex>& lock, const std::optional<Clock::time_point>& deadline,
                 InterruptCheck interrupted, const Enough& enough);
  Received Take(Op op, std::size_t count);
  void Sort(std::vector<std::uint32_t>& envs);

  Deliverer& deliverer_;
  mutable std::mutex mutex_;
  std::condition_variable delivered_;
  bool closed_ = false;
  std::array<Queue, kNumOps> queues_;
  std::vector<Sent> sent_;               // per env
  std::vector<EnvFault> faults_alone_;   // of envs that were sent by themselves
  std::vector<std::uint64_t> is_taken_;  // scratch of Sort: a bit per env
};

}  // namespace torchrl_pool::core

#endif  // TORCHRL_POOL_CORE_OUTBOX_H_
