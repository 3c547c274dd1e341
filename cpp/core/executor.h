// The base of both executors, of threads and of worker processes: their interface, and how results of visits
// are delivered and phases advance, which is the same for both.
#ifndef TORCHRL_POOL_CORE_EXECUTOR_H_
#define TORCHRL_POOL_CORE_EXECUTOR_H_

#include <cstdint>
#include <exception>
#include <optional>
#include <span>
#include <vector>

#include "env_table.h"
#include "event_count.h"
#include "job.h"
#include "job_store.h"
#include "learning_order.h"
#include "outbox.h"
#include "phases.h"
#include "visit.h"
#include "visit_watch.h"

namespace torchrl_pool::core {

class ChainRunner;

// All methods may be called from any thread, except Start and the methods that end it.
class Executor : public Deliverer {
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
  // Called before that for jobs that learn in the order of their submission, see LearningOrder.
  void TakeTurn(Job& job) { learning_order_.Add(job); }
  // Returns when the job has finished; helps with it where its plan says so. Throws Interrupted.
  virtual void WaitFor(Job& job, InterruptCheck interrupted) = 0;

  // Frees what belongs to threads that have returned after their visits timed out.
  virtual void FreeHung() {}
  // One of these (ascending) envs in which a timed-out thread still hangs.
  virtual std::optional<std::uint32_t> FindHung(std::span<const std::uint32_t>) const { return std::nullopt; }

  // ---- The end, by one thread at a time.

  virtual void Stop() = 0;                                      // no more work is started
  virtual bool WaitForThreads(InterruptCheck interrupted) = 0;  // except those that hang; false: interrupted
  virtual bool Join() = 0;  // joins those that have ended; false: some still run

 protected:
  Executor(EnvTable& envs, JobStore& jobs) : envs_(envs), jobs_(jobs) {}

  // Visits these envs and leaves the results in `scratch`. Returns false if the visit timed out and was
  // already reported as failed: this thread must then exit. With a watch there is one env only.
  bool VisitEnvs(Job& job, std::span<const std::uint32_t> envs, Scratch& scratch, VisitWatch* watch);
  // Its parts: copies the recorded rows of these envs and clears `count` results; runs the job's chain on the
  // rows that are kOk; resets an env whose episode has ended.
  void BeginVisits(const Job& job, std::span<const std::uint32_t> recorded, std::size_t count,
                   Scratch& scratch);
  void RunChain(const Job& job, std::span<const std::uint32_t> envs, const Scratch& scratch);
  bool IsDone(const Job& job, std::uint32_t env) const;
  void BeginNext(const Job& job, std::size_t i, std::uint32_t env, Visitor& visitor, Scratch& scratch,
                 std::optional<ChainRunner>& root);
  // Delivers results, with their faults: the only way by which they leave an executor.
  void Deliver(Job& job, std::span<const std::uint32_t> envs, std::span<const Result> results,
               std::vector<EnvFault>& faults);
  // Counts envs as done in this phase. The last one advances the job, which may then be reused: the caller
  // must not touch it any more.
  void CountDone(Job& job, std::uint32_t count);
  // Reports these envs as failed after an exception (such as bad_alloc) and counts them as done.
  void Lose(Job& job, std::span<const std::uint32_t> envs, std::exception_ptr error);
  // Starts the next phase of a job that stalled between two. Called by the thread that waits for it.
  void AdvanceIfStalled(Job& job);
  // Starts the next phases; called by the thread that finished one. kPhase: other threads go on with it.
  virtual Next RunPhases(Job& job) = 0;

  EnvTable& envs_;
  JobStore& jobs_;

 private:
  void HandOver(Job& job, std::span<const std::uint32_t> envs, std::span<const Result> results,
                std::vector<EnvFault>& faults);
  void VisitAll(Job& job, std::span<const std::uint32_t> envs, Scratch& scratch);
  void Advance(Job& job);

  LearningOrder learning_order_;
};

}  // namespace torchrl_pool::core

#endif  // TORCHRL_POOL_CORE_EXECUTOR_H_
