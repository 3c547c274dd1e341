// The executor of worker processes, each of which steps some of the envs in Python.
//
// A job is split into runs of consecutive envs of one worker, and each run is posted as a request to its
// worker's mailbox in shared memory. A worker counts the envs that it has finished; a run knows the count at
// which it is complete. A thread that waits for a job polls the counts that the job's runs need, and visits
// finished envs: it copies what the worker has written. A receiving thread does so for all that was sent. If
// a chain needs more of an env (another step, a reset), that is one more run of the same job.
//
// There are no threads here, and no leader among the callers: a mutex guards the table of runs, and the
// thread that claims a run visits it. One waiting thread at a time also checks for workers that have died or
// timed out. No lock is held while an env, a worker or Python code runs.
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
#include "time_spent.h"
#include "workers/arena.h"
#include "workers/remote_task.h"

namespace torchrl_pool::core {

// What the executor needs from the code that started the processes. Each function may throw Interrupted,
// which comes out of the waiting call.
struct WorkerOptions {
  std::shared_ptr<Arena> arena;
  std::vector<int> processes;  // a pidfd per worker; -1: this process does its work, in `serve`
  // The time limit of one operation of one env, from when the worker starts it. After that the worker is
  // killed.
  std::optional<std::chrono::steady_clock::duration> step_timeout;

  std::function<void()> serve;                          // handles the requests of this process's own mailbox
  std::function<std::string(int worker)> how_it_ended;  // in words that follow "its worker process"
  // Returns the new pidfd; throws StatusError. Null: dead workers stay dead.
  std::function<int(int worker)> respawn;
  std::function<std::string(std::uint32_t env)> save;  // a state; throws std::exception
  std::function<void(std::uint32_t env, std::string_view)> load;
  std::function<void()> advise;  // once, when the envs have been stepped for a while
};

class WorkerExecutor final : public Executor {
 public:
  WorkerExecutor(EnvTable& envs, JobStore& jobs, WorkerOptions options);

  void Start() override {}
  int num_threads() const override { return static_cast<int>(workers_.size()); }
  void Begin(Job& job) override;
  void WaitFor(Job& job, InterruptCheck interrupted) override;
  bool WaitUntil(EventCount& changed, const Condition& is_over, Clock::time_point until,
                 InterruptCheck interrupted) override;
  void Stop() override { arena_.bell().Ring(); }
  bool WaitForThreads(InterruptCheck interrupted) override;
  bool Join() override;
  bool IsIn(std::thread::id caller) override;

  // The workers whose processes have ended and were not replaced.
  std::vector<int> Ended();
  // Installs the new process of a worker whose process has ended.
  void Replace(int worker, int process);

 private:
  // Consecutive envs of a job, requested from a worker and not visited yet.
  struct Run {
    Job* job;
    Request request;
    std::uint32_t index;  // of its first env in the job's list
    Turn turn = 0;
    std::uint64_t end = 0;  // the worker's count of finished envs when it is complete

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
    std::string why;           // why it has ended: the message of its envs' faults
    // ---- Used by the thread that checks the workers.
    std::uint64_t begun = 0, finished = 0;  // when last looked at
    TimeSpent unchanged;                    // since one of these has changed
    std::uint64_t finished_before = 0;      // count when this process replaced another one
  };
  // Which runs a thread waits for: those of one job and of what that may have to learn after, or those of all
  // asynchronous jobs.
  struct Wanted {
    Job* job = nullptr;  // null: of all asynchronous ones

    bool operator()(const Run& run) const {
      if (!job) return run.job->outbox;
      return run.job == job || (run.job->has_ticket && job->has_ticket);
    }
  };
  // The buffers of one waiting thread.
  struct Waiter {
    Waiter(const Layout& layout, std::uint32_t num_envs, std::size_t num_workers);

    Scratch scratch;
    std::vector<Run> claimed;
    std::vector<std::uint32_t> over;  // envs whose visits are complete
    // Per worker, the count of finished envs at which a visit is worthwhile, and at which a parked thread is
    // woken.
    std::vector<std::uint64_t> visit_at, wake_at;
    std::uint64_t changes = 0;  // of the table of runs, when these counts were computed
  };
  class WaiterInUse;

  int WorkerOf(std::uint32_t env) const;
  std::uint64_t FinishedBy(int worker) const;

  void Prepare(const Job& job, Op op, std::uint32_t env);
  void WriteActions(const Job& job, std::uint32_t first, std::uint32_t count);
  void Ask(int worker, Run run);
  void Post(int worker, const Request& request);  // under mutex_
  void NotifyOfMore();
  void AskMore(const Run& run, std::uint32_t i);

  template <class IsOver>
  bool Work(const Wanted& wanted, const IsOver& is_over, Clock::time_point until, InterruptCheck interrupted);
  template <class IsOver>
  void Sleep(const Waiter& waiter, const IsOver& is_over, Clock::time_point until);
  void Await(const Wanted& wanted, Waiter& waiter);
  bool HasArrivals(const Waiter& waiter) const;
  void Serve();
  void AdviseOnce();

  bool VisitFinished(const Wanted& wanted, Waiter& waiter);
  void ClaimOf(int worker, const Wanted& wanted, Waiter& waiter);  // under mutex_
  void Visit(const Run& run, Waiter& waiter);
  void MakeEnvs(std::span<const std::uint32_t> envs, Scratch& scratch);
  bool IsAtHand(std::uint32_t env, Op op) const override {
    return op == Op::kReset && arena_.cell(env).root != EnvCell::kNone;
  }
  void CompleteMessages(std::vector<EnvFault>& faults) const;

  void LookAtWorkers(Clock::time_point since);
  void LookAt(int worker, Clock::time_point now, Clock::time_point since);
  void HandleLost(int worker, const std::string& why);
  void End(int worker, const std::string& why);  // under mutex_
  void Fail(std::uint32_t env, const std::string& why);

  const WorkerOptions options_;
  Arena& arena_;
  std::size_t row_bytes_ = 0;  // of an env's outputs
  bool may_spin_ = false;      // there are more processors than worker processes
  std::vector<RemoteEnv> remotes_;
  std::vector<std::unique_ptr<Worker>> workers_;

  std::mutex mutex_;
  std::vector<std::unique_ptr<Waiter>> waiters_;  // not in use
  bool is_over_ = false;                          // closed: nothing is visited or looked at any more
  std::thread::id looking_;                       // the thread that checks the workers
  int num_visiting_ = 0;                          // threads
  std::size_t num_waiters_ = 0;

  std::atomic<std::thread::id> serving_{};  // the thread that runs `serve`
  std::atomic<bool> is_advised_{false};
  std::array<std::atomic<Clock::duration>, 2> last_waits_{};  // for one job; for any env
  std::atomic<int> num_receiving_{0};                         // threads that wait for asynchronous results
  // Incremented when the table of runs has changed in a way that waiting threads must see.
  std::atomic<std::uint64_t> changes_{0};
};

}  // namespace torchrl_pool::core

#endif  // TORCHRL_POOL_CORE_WORKERS_WORKER_EXECUTOR_H_
