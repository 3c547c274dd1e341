// Who does the work of jobs: the threads of this process, or worker processes. And what is done with some
// of a job's envs once they can be visited, which is the same for both.
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
#include "outbox.h"
#include "phases.h"
#include "visit.h"
#include "visit_watch.h"

namespace torchrl_pool::core {

class ChainRunner;

// All methods are safe from any thread, but for what is said of their beginning and their end.
class Executor : public Deliverer {
 public:
  using Clock = EventCount::Clock;
  // Asked now and then while waiting; true gives the wait up.
  using InterruptCheck = bool (*)();

  virtual ~Executor() = default;
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  virtual void Start() = 0;  // once, at first; throws PoolError
  virtual int num_threads() const = 0;

  // Plans a job's visits, and puts it in flight. Under an inline plan it then rests until it is waited
  // for.
  virtual void Begin(Job& job) = 0;
  // Works, where the job's plan says so, until the job has finished. Throws Interrupted.
  virtual void WaitFor(Job& job, InterruptCheck interrupted) = 0;

  // What belongs to threads that have come back after they were given up.
  virtual void FreeHung() {}
  // One of these envs, which ascend, in which a thread that was given up still is.
  virtual std::optional<std::uint32_t> FindHung(std::span<const std::uint32_t>) const { return std::nullopt; }

  // ---- The end, by one thread at a time.

  virtual void Stop() = 0;                                      // no more work is begun
  virtual bool WaitForThreads(InterruptCheck interrupted) = 0;  // but for those that hang; false: interrupted
  virtual bool Join() = 0;  // those that have ended; false: there are others, which may be in any env

 protected:
  Executor(EnvTable& envs, JobStore& jobs) : envs_(envs), jobs_(jobs) {}

  // Visits these envs of the job, whose rows are then complete, and leaves the results in `scratch`.
  // False: the visit was given up, and is accounted for. There is one env only where visits are watched.
  bool VisitEnvs(Job& job, std::span<const std::uint32_t> envs, Scratch& scratch, VisitWatch* watch);
  // The parts of that: what goes before `count` visits, with rows of these envs that are recorded; the
  // job's chain on the rows of those that are kOk; and where such an env is done, its next episode.
  void BeginVisits(const Job& job, std::span<const std::uint32_t> recorded, std::size_t count,
                   Scratch& scratch);
  void RunChain(const Job& job, std::span<const std::uint32_t> envs, const Scratch& scratch);
  bool IsDone(const Job& job, std::uint32_t env) const;
  void BeginNext(const Job& job, std::size_t i, std::uint32_t env, Visitor& visitor, Scratch& scratch,
                 std::optional<ChainRunner>& root);
  // The one way back of results, with their faults.
  void Deliver(Job& job, std::span<const std::uint32_t> envs, std::span<const Result> results,
               std::vector<EnvFault>& faults);
  // So many envs have done their part of a phase. Once the last one of the last phase is counted the job
  // may be used again: nothing of it is touched after this.
  void CountDone(Job& job, std::uint32_t count);
  // What an exception has cut short, such as the lack of memory: its envs are accounted for.
  void Lose(Job& job, std::span<const std::uint32_t> envs, std::exception_ptr error);
  // Begins the next phase of a job that has stalled, if it has. By whoever waits for it.
  void AdvanceIfStalled(Job& job);
  // Begins the job's next phases, by whoever has done the last of one. kPhase: somebody else goes on.
  virtual Next RunPhases(Job& job) = 0;

  EnvTable& envs_;
  JobStore& jobs_;

 private:
  void HandOver(Job& job, std::span<const std::uint32_t> envs, std::span<const Result> results,
                std::vector<EnvFault>& faults);
  void VisitAll(Job& job, std::span<const std::uint32_t> envs, Scratch& scratch);
  void Advance(Job& job);
};

}  // namespace torchrl_pool::core

#endif  // TORCHRL_POOL_CORE_EXECUTOR_H_
