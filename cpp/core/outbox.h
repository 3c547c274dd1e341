// Asynchronous results: what was sent and not yet received. Finished envs wait here until a thread receives
// them.
#ifndef TORCHRL_POOL_CORE_OUTBOX_H_
#define TORCHRL_POOL_CORE_OUTBOX_H_

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "errors.h"
#include "event_count.h"
#include "job.h"

namespace torchrl_pool::core {

// Every result is received exactly once, unless it is put back. All methods may be called from any thread.
//
// An env is sent either as one of a batch, and then received with whichever are ready first, or alone, and
// then received by its index. Each operation has a queue of what is sent in batches, and each env that was
// ever sent alone has a queue of its own.
class Outbox {
 public:
  // Polled while waiting, without a lock held; true stops the wait.
  using InterruptCheck = bool (*)();
  using Clock = std::chrono::steady_clock;

  // What was sent with an env: something that several of them may share, and the env's place in it.
  struct Cargo {
    std::shared_ptr<void> whole;
    std::uint32_t row = 0;
  };

  struct Received {
    Op op = Op::kReset;
    bool is_accepted = false;          // by Pool::Accept
    std::vector<std::uint32_t> envs;   // ascending
    std::vector<std::uint8_t> resets;  // per env: whether kStepAndReset has started a new episode
    std::vector<Cargo> cargo;          // per env, or per fault
    std::vector<EnvFault> faults;      // envs that failed; then `envs` is empty: they wait for the next call
  };

  // What a thread does until a condition holds, of whose changes it is notified: Executor::WaitUntil.
  using Condition = std::function<bool()>;
  using WaitUntil =
      std::function<bool(EventCount&, const Condition&, Clock::time_point until, InterruptCheck)>;

  Outbox(std::uint32_t num_envs, WaitUntil wait_until);

  // Ends all waits, present and future, with a PoolError.
  void Close();

  // Makes what envs need that are sent alone: this may fail, and what follows must not.
  void MakeRoomAlone(std::span<const std::uint32_t> envs);

  // Called before the job of these envs is published. The i-th of them has row i of the cargo.
  void Expect(Op op, std::span<const std::uint32_t> envs, bool alone, const std::shared_ptr<void>& cargo);

  // Called once for these envs by the thread that has visited them. The faults are
  // those of the results kFailed. Where there is no memory for them it throws, and nothing is delivered.
  void Deliver(Op op, std::span<const std::uint32_t> envs, std::span<const Result> results,
               std::vector<EnvFault>& faults);

  // Delivers envs as failed after an exception such as bad_alloc. It waits until there is memory for that.
  void DeliverLost(Op op, std::span<const std::uint32_t> envs) noexcept;

  // Undoes a Receive.
  void PutBack(const Received& received);

  // Waits for at least `least` results and takes what is ready, up to `most` (0: no limit). With a timeout it
  // keeps waiting for `most` until then, and returns no value if fewer than `least` are ready by then. Throws
  // PoolError if fewer than `least` are outstanding, and Interrupted.
  std::optional<Received> Receive(Op op, std::size_t least, std::size_t most,
                                  std::optional<Clock::duration> timeout, InterruptCheck interrupted);
  // The same for one env that was sent alone.
  std::optional<Received> ReceiveAlone(Op op, std::uint32_t env, std::optional<Clock::duration> timeout,
                                       InterruptCheck interrupted);

 private:
  struct Queue {
    std::size_t outstanding = 0;       // not yet received
    std::vector<std::uint32_t> ready;  // with room for all envs: to deliver takes no memory
    std::vector<EnvFault> faults;
    std::vector<std::size_t> awaited;  // per waiting thread: how many results it needs

    // Whether a thread that needs so many goes on. No more than there are: another thread may receive some.
    bool Has(std::size_t count) const {
      return ready.size() >= std::min(count, outstanding) || !faults.empty();
    }
    // Whether any waiting thread does. To wake threads for every single result would cost more than the
    // steps.
    bool CanWake() const {
      return std::any_of(awaited.begin(), awaited.end(), [this](std::size_t count) { return Has(count); });
    }
  };
  struct Sent {
    bool is_alone = false;
    Op op = Op::kReset;
    Result result = Result::kOk;
    Cargo cargo = {};
  };
  class Unlocked;

  Queue& QueueOf(std::uint32_t env, Op op);
  // `check` throws PoolError where less than `least` is outstanding.
  template <class Check>
  std::optional<Received> ReceiveFrom(Queue& queue, Op op, std::size_t least, std::size_t most,
                                      std::optional<Clock::duration> timeout, InterruptCheck interrupted,
                                      const Check& check, std::unique_lock<std::mutex> lock);
  Received Take(Queue& queue, Op op, std::size_t count);
  void TakeCargo(std::int64_t env, Received& received);

  const WaitUntil wait_until_;
  EventCount delivered_;  // notified when a waiting thread can go on
  std::mutex mutex_;      // guards all below
  bool closed_ = false;
  std::array<Queue, kNumOps> queues_;
  std::map<std::uint32_t, Queue> alone_;  // by env
  std::vector<Sent> sent_;                // per env
};

}  // namespace torchrl_pool::core

#endif  // TORCHRL_POOL_CORE_OUTBOX_H_
