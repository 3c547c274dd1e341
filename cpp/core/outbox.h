// Asynchronous results: what was sent and not yet received. Finished envs wait here until a thread receives
// them.
#ifndef TORCHRL_POOL_CORE_OUTBOX_H_
#define TORCHRL_POOL_CORE_OUTBOX_H_

#include <array>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "errors.h"
#include "job.h"

namespace torchrl_pool::core {

// The source of results. Worker processes deliver only while a receiving thread polls them.
class Deliverer {
 public:
  using Clock = std::chrono::steady_clock;

  virtual std::uint64_t Deliveries() const { return 0; }
  // Fails visits that exceed the step timeout, and wakes threads for queued work. Waiting threads call it
  // periodically.
  virtual void LookAfterWork() = 0;
  // Polls until there are more deliveries than this number, or until the deadline. Returns false at once
  // where the pool has threads of its own that deliver.
  virtual bool WorkUntil(std::uint64_t, Clock::time_point) { return false; }

 protected:
  ~Deliverer() = default;
};

// Every result is received exactly once, unless it is put back. All methods may be called from any thread.
//
// An env is sent either as one of a batch, and then received with whichever are ready first, or alone, and
// then received by its index. The two kinds do not mix, and each operation has its own queue.
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
    bool alone = false;
    bool is_accepted = false;          // by Pool::Accept
    std::vector<std::uint32_t> envs;   // ascending
    std::vector<std::uint8_t> resets;  // per env: whether kStepAndReset has started a new episode
    std::vector<Cargo> cargo;          // per env, or per fault
    std::vector<EnvFault> faults;      // envs that failed; then `envs` is empty: they wait for the next call
  };

  Outbox(std::uint32_t num_envs, Deliverer& deliverer);

  // Ends all waits, present and future, with a PoolError.
  void Close();

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
  // The results of envs that were sent in batches.
  struct Queue {
    std::size_t outstanding = 0;       // not yet received
    std::vector<std::uint32_t> ready;  // with room for all envs: to deliver takes no memory
    std::vector<EnvFault> faults;
    std::vector<std::size_t> awaited;  // per waiting thread: how many results it needs (capped at what is
                                       // outstanding); 0: one env that was sent alone
  };
  enum class How : std::uint8_t { kWithOthers, kAlone, kAloneAndReady };
  struct Sent {
    How how = How::kWithOthers;  // received, too
    Op op = Op::kReset;
    Result result = Result::kOk;
    Cargo cargo = {};
  };

  // Whether a waiting thread can go on. Waking threads for every single result would cost more than the
  // steps.
  static bool CanWake(const Queue& queue);

  // Under mutex_: waits until `enough` holds. False: the time is over.
  template <class Enough>
  bool WaitUntil(std::unique_lock<std::mutex>& lock, const std::optional<Clock::time_point>& deadline,
                 InterruptCheck interrupted, const Enough& enough);
  Received Take(Op op, std::size_t count);
  void TakeCargo(std::int64_t env, Received& received);
  void Sort(std::vector<std::uint32_t>& envs);

  Deliverer& deliverer_;
  mutable std::mutex mutex_;
  std::condition_variable delivered_;
  bool closed_ = false;
  std::array<Queue, kNumOps> queues_;
  std::vector<Sent> sent_;               // per env
  std::vector<EnvFault> faults_alone_;   // of envs that were sent alone
  std::vector<std::uint64_t> is_taken_;  // scratch of Sort: a bit per env
};

}  // namespace torchrl_pool::core

#endif  // TORCHRL_POOL_CORE_OUTBOX_H_
