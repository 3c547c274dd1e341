// Worker processes as a executor: envs of any kind, each of which lives in one of them.
//
// A job's envs are asked for in the mailboxes of their workers when it takes off, in runs of consecutive
// ones. A run knows its worker, and how many envs that will have finished with it. Whoever waits for a job
// looks at the counts that its runs need, and visits what is finished: copies what the worker has written.
// Whoever receives does so for all that was sent. Where a chain wants more of an env, another step or a
// reset, that is a further run of the same job.
//
// There are no threads here, and nobody leads: a mutex guards the table of runs, and what a thread has
// claimed there it alone visits. Workers that have ended, or are late, are looked after by whoever waits and
// finds nobody else at it. No lock is held while an env, a worker or Python works.
#ifndef TORCHRL_POOL_CORE_WORKERS_WORKER_EXECUTOR_H_
#define TORCHRL_POOL_CORE_WORKERS_WORKER_EXECUTOR_H_

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "executor.h"
#include "workers/arena.h"
#include "workers/remote_task.h"

namespace torchrl_pool::core {

// What the executor asks of whoever has started the processes. Each may throw Interrupted, which comes out of
// the call that is waiting.
struct WorkerOptions {
  std::shared_ptr<Arena> arena;
  std::vector<int> processes;  // per worker, its pidfd; -1: there is none, and `serve` does its work
  // How long a worker may be inside one env for one op, from when it takes it up. After that it is ended.
  std::optional<std::chrono::steady_clock::duration> step_timeout;

  std::function<void()> serve;                          // empties such mailboxes
  std::function<std::string(int worker)> how_it_ended;  // in words that follow "its worker process"
  std::function<int(int worker)> respawn;               // its new pidfd; null: what has ended stays so
  std::function<std::string(std::uint32_t env)> save;   // a state; throws std::exception
  std::function<void(std::uint32_t env, std::string_view)> load;
};

class WorkerExecutor final : public Executor {
 public:
  WorkerExecutor(EnvTable& envs, JobStore& jobs, WorkerOptions options);

  void Start() override {}
  int num_threads() const override { return static_cast<int>(workers_.size()); }
  void Begin(Job& job) override;
  void WaitFor(Job& job, InterruptCheck interrupted) override;
  std::uint64_t Deliveries() const override { return deliveries_.load(std::memory_order_seq_cst); }
  bool WorkUntil(std::uint64_t deliveries, Clock::time_point until) override;
  void LookAfterWork() override;
  void Stop() override { arena_.bell().Ring(); }
  bool WaitForThreads(InterruptCheck interrupted) override;
  bool Join() override;

  // The workers that have ended, which no env can use.
  std::vector<int> Ended();
  // Another process has taken the place of one that has ended.
  void Replace(int worker, int process);

 private:
  // Consecutive envs of a job that a worker was asked for, and that nobody has visited yet.
  struct Run {
    // What their visit goes on with: all of it, another time of a step that repeats its action, or the
    // episodes that follow.
    enum class Part : std::uint8_t { kAll, kRepeat, kNextEpisode };

    Job* job;
    Request request;
    std::uint32_t index;  // of its first env in the job's list
    Part part = Part::kAll;
    std::size_t time = 0;   // so many times the step has been taken already
    std::uint64_t end = 0;  // how many envs its worker will have finished with it

    std::uint64_t begin() const { return end - request.count; }
  };
  struct Worker {
    std::atomic<std::uint64_t> asked{0};  // envs, altogether
    std::atomic<int> process{-1};
    std::atomic<bool> has_ended{false};
    // ---- Guarded by mutex_.
    std::vector<Run> pending;  // in the order of the requests; never longer than the worker has envs
    std::uint64_t posted = 0;  // requests
    std::uint64_t known = 0;   // envs that it has finished, at least
    std::string why;           // it has ended, which is what its envs have failed of
    // ---- Whose turn it is to look after workers.
    std::uint64_t begun = 0, finished = 0;  // when last looked at
    Clock::time_point progress{};           // when that had last changed
    std::uint64_t finished_before = 0;      // it took the place of another one
  };
  // Which runs a thread is there for: those of one job, or of all that were sent, or any.
  struct Wanted {
    Job* job = nullptr;
    bool any = false;

    bool operator()(const Run& run) const { return job ? run.job == job : any || run.job->outbox; }
  };
  // What a thread needs that visits.
  struct Waiter {
    Waiter(const Layout& layout, std::uint32_t num_envs, std::size_t num_workers);

    Scratch scratch;
    std::vector<Run> claimed;
    std::vector<std::uint32_t> envs;  // whose visits are over
    ApartVector<Result> results;      // and what they have led to
    // Per worker, how many envs it has to have finished for a visit to be worth while; and for a thread that
    // sleeps to be woken.
    std::vector<std::uint64_t> visit_at, wake_at;
    std::uint64_t changes = 0;  // of the table of runs, when these were last computed
  };
  class WaiterInUse;

  int WorkerOf(std::uint32_t env) const;
  std::uint64_t FinishedBy(int worker) const;

  void Prepare(const Job& job, Op op, std::uint32_t env);
  void WriteActions(const Job& job, std::uint32_t first, std::uint32_t count);
  void Ask(int worker, Run run);
  void Post(int worker, const Request& request);  // under mutex_
  void NotifyOfMore();
  void AskMore(const Run& run, std::uint32_t i, Op op, Run::Part part);

  template <class Enough>
  void Work(const Wanted& wanted, const Enough& enough, Clock::time_point until, InterruptCheck interrupted);
  template <class Enough>
  void Sleep(const Waiter& waiter, const Enough& enough, Clock::time_point until);
  void Await(const Wanted& wanted, Waiter& waiter);
  bool HasArrivals(const Waiter& waiter) const;
  void Serve();

  bool VisitFinished(const Wanted& wanted, Waiter& waiter);
  void ClaimOf(int worker, const Wanted& wanted, Waiter& waiter);  // under mutex_
  void Visit(const Run& run, Waiter& waiter);
  void MakeEnvs(std::span<const std::uint32_t> envs, Scratch& scratch);
  void VisitInTurns(const Run& run, std::span<const std::uint32_t> envs, Waiter& waiter);
  void FinishVisits(Job& job, std::span<const std::uint32_t> envs, std::span<const Result> results,
                    std::vector<EnvFault>& faults);
  Next RunPhases(Job& job) override;

  void LookAtWorkers();
  void LookAt(int worker, Clock::time_point now);
  void HandleLost(int worker, const std::string& why);
  void End(int worker, const std::string& why);  // under mutex_
  void Fail(std::uint32_t env, const std::string& why);

  const WorkerOptions options_;
  Arena& arena_;
  std::size_t row_bytes_ = 0;  // of an env's outputs
  std::vector<RemoteEnv> remotes_;
  std::vector<std::unique_ptr<Worker>> workers_;

  std::mutex mutex_;
  std::vector<std::unique_ptr<Waiter>> waiters_;  // that nobody uses
  bool is_over_ = false;                          // nothing is visited any more
  int num_visiting_ = 0;                          // threads
  std::size_t num_waiters_ = 0;

  std::atomic<std::thread::id> serving_{};  // the thread that does what is asked for in this process
  std::atomic<bool> is_looking_{false};     // some thread, at the workers
  std::array<std::atomic<Clock::duration>, 2> last_waits_{};  // for a job, for any env
  std::atomic<std::uint64_t> deliveries_{0};
  std::atomic<int> num_receiving_{0};  // threads that wait for any env that was sent
  // How often there was something to wait for that those who wait already do not know of.
  std::atomic<std::uint64_t> changes_{0};
};

}  // namespace torchrl_pool::core

#endif  // TORCHRL_POOL_CORE_WORKERS_WORKER_EXECUTOR_H_
