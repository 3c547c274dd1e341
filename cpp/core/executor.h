// The base of both executors, of threads and of worker processes: their interface, and how results of visits
// are delivered and phases advance, which is the same for both.
#ifndef TORCHRL_POOL_CORE_EXECUTOR_H_
#define TORCHRL_POOL_CORE_EXECUTOR_H_

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "env_table.h"
#include "event_count.h"
#include "float_modes.h"
#include "job.h"
#include "job_store.h"
#include "learning_order.h"
#include "visit.h"

namespace torchrl_pool::core {

// All methods may be called from any thread, except Start and the methods that end it.
class Executor {
 public:
  using Clock = EventCount::Clock;
  // Polled while waiting; true stops the wait.
  using InterruptCheck = bool (*)();

  virtual ~Executor() = default;
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  virtual void Start() = 0;  // once, before anything else; throws PoolError
  virtual int num_threads() const = 0;

  // Plans a job's visits and publishes it. Under an inline plan nothing happens until WaitFor.
  virtual void Begin(Job& job) = 0;
  // Returns when the job has finished; helps with it where its plan says so. Throws Interrupted.
  virtual void WaitFor(Job& job, InterruptCheck interrupted) = 0;
  // Returns when a condition holds, of whose changes `changed` is notified: true. Or when the time is over.
  // Does meanwhile what a waiting thread has to do. Throws Interrupted.
  using Condition = std::function<bool()>;
  virtual bool WaitUntil(EventCount& changed, const Condition& is_over, Clock::time_point until,
                         InterruptCheck interrupted) = 0;

  // Frees what belongs to threads that have returned after their visits timed out.
  virtual void FreeHung() {}
  // One of these (ascending) envs in which a timed-out thread still hangs.
  virtual std::optional<std::uint32_t> FindHung(std::span<const std::uint32_t>) const { return std::nullopt; }

  // Whether this thread is in an env, or in what an env's process is asked for.
  virtual bool IsIn(std::thread::id) { return false; }

  // ---- The end, by one thread at a time.

  virtual void Stop() = 0;                                      // no more work is started
  virtual bool WaitForThreads(InterruptCheck interrupted) = 0;  // except those that hang; false: interrupted
  virtual bool Join() = 0;  // joins those that have ended; false: some still run

 protected:
  Executor(EnvTable& envs, JobStore& jobs) : envs_(envs), jobs_(jobs) {}

  // Which visit it is that an env of a job is at: so many repetitions of its step are over (frame skip); or
  // all that is left is to begin the next episode.
  using Turn = std::size_t;
  static constexpr Turn kNextEpisode = std::numeric_limits<Turn>::max();

  // Visits these envs, and runs the job's chain on their rows; goes on with their next turns as far as those
  // are at hand. Leaves the results in `scratch`; kGoesOn: the env is to be visited again.
  void VisitEnvs(Job& job, std::span<const std::uint32_t> envs, Turn turn, Scratch& scratch);
  // Whether the env can do this now, within a job that has just stepped it.
  virtual bool IsAtHand(std::uint32_t env, Op op) const = 0;
  bool IsDone(const Job& job, std::uint32_t env) const {
    return *job.out.Row(envs_.layout().done, env) != std::byte{0};
  }

  // Delivers results, with their faults: the only way by which they leave an executor.
  void Deliver(Job& job, std::span<const std::uint32_t> envs, std::span<const Result> results,
               std::vector<EnvFault>& faults);
  // Counts envs as done in this phase. The last one advances the job, which may then be reused: the caller
  // must not touch it any more.
  void CountDone(Job& job, std::uint32_t count);
  // Reports these envs as failed after an exception (such as bad_alloc) and counts them as done.
  void Lose(Job& job, std::span<const std::uint32_t> envs, std::exception_ptr error);
  // By the submitter, before the job is in flight.
  void TakeTicket(Job& job) { learning_order_.TakeTicket(job); }
  // Does these envs' part of a phase that is not the visits.
  void RunPhase(const Job& job, std::span<const std::uint32_t> envs);
  // Hands the phase that the job has come to over to other threads. False: the calling thread does it all.
  virtual bool SharePhase(Job&) { return false; }

  EnvTable& envs_;
  JobStore& jobs_;
  // Of the thread that has made the executor. Whichever thread computes rows has them meanwhile.
  const FloatModes float_modes_ = FloatModes::OfThisThread();

 private:
  void VisitStates(Job& job, std::span<const std::uint32_t> envs, Scratch& scratch);
  void VisitState(const Job& job, std::size_t i, EnvSlot& slot);
  void VisitRows(Job& job, std::span<const std::uint32_t> envs, Turn turn, Visitor& visitor,
                 Scratch& scratch);
  Result Repeat(Job& job, std::uint32_t env, Turn turn, Visitor& visitor, Scratch& scratch);
  void BeginEpisodes(Job& job, std::span<const std::uint32_t> envs, Visitor& visitor, Scratch& scratch);
  void RunChain(const Job& job, const Batch& batch, Stage::When when, std::span<const std::uint32_t> envs,
                const Scratch& scratch, Result after);
  void HandOver(Job& job, std::span<const std::uint32_t> envs, std::span<const Result> results,
                std::vector<EnvFault>& faults);
  bool Advance(Job& job);
  void AdvanceLearners();
  bool RunPhases(Job& job);
  bool NextPhase(Job& job);
  void Learn(Job& job, std::size_t chain_phase, bool of_resets);
  // Where these envs go on with their episodes, their rows of the root are copied from `out`.
  void CompleteRoot(const Job& job, std::span<const std::uint32_t> envs);

  LearningOrder learning_order_;
};

}  // namespace torchrl_pool::core

#endif  // TORCHRL_POOL_CORE_EXECUTOR_H_
