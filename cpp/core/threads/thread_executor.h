// The executor of C++ simulators: a thread pool with one queue per thread and work stealing.
//
// Every env has a home thread, which keeps its data in the cache. Each phase of a job is published once: its
// envs go to the queues of their homes, in chunks, and as many threads are woken as the cost model finds
// worthwhile. A thread takes from its own queue first, then steals from its neighbours'. Whichever thread
// delivers the last chunk of a phase starts the next phase or finishes the job. Callers wait for work, never
// for a particular thread.
#ifndef TORCHRL_POOL_CORE_THREADS_THREAD_EXECUTOR_H_
#define TORCHRL_POOL_CORE_THREADS_THREAD_EXECUTOR_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "cpu.h"
#include "env_table.h"
#include "event_count.h"
#include "executor.h"
#include "job.h"
#include "job_store.h"
#include "threads/cost_model.h"
#include "threads/home_map.h"
#include "threads/home_queue.h"
#include "visit.h"
#include "visit_watch.h"

namespace torchrl_pool::core {

struct ThreadOptions {
  int num_threads = 1;               // the one that waits included
  std::vector<int> thread_affinity;  // processors for the other threads, in turn; empty: not pinned
  // The time limit of one visit. After it the env counts as failed, and another thread replaces the one that
  // hangs. With a limit no env runs on the calling thread. None: no limit.
  std::optional<std::chrono::steady_clock::duration> step_timeout;
};

class ThreadExecutor final : public Executor {
 public:
  ThreadExecutor(EnvTable& envs, JobStore& jobs, const ThreadOptions& options);

  void Start() override;
  int num_threads() const override { return homes_.size(); }
  void Begin(Job& job) override;
  void WaitFor(Job& job, InterruptCheck interrupted) override;
  bool WaitUntil(EventCount& changed, const Condition& is_over, Clock::time_point until,
                 InterruptCheck interrupted) override;
  void FreeHung() override;
  std::optional<std::uint32_t> FindHung(std::span<const std::uint32_t> envs) const override;
  void Stop() override;
  bool WaitForThreads(InterruptCheck interrupted) override;
  bool Join() override;

 private:
  enum class Ran { kNothing, kChunk, kGivenUp };

  // A thread's own data, which it alone writes.
  struct Thread {
    VisitWatch watch;
    std::atomic<bool> ended{false};
    std::unique_ptr<Scratch> scratch;  // made by who starts it, who can be told that there is no memory
    std::thread thread;
  };
  struct HomeThread {
    explicit HomeThread(std::uint32_t num_envs) : queue(num_envs) {}
    HomeQueue queue;
    EventCount parked;
    std::unique_ptr<Thread> thread;  // replaced when it hangs; guarded by mutex_
  };
  // A visit that timed out: what its thread may still use until it has ended.
  struct Hung {
    std::uint32_t env;
    std::unique_ptr<Thread> thread;
    Job* job;
  };

  HomeThread& home_thread(int home) { return *home_threads_[static_cast<std::size_t>(home)]; }
  ChunkSizes ChunkSizesOf(const Job& job) const;

  Plan PlanFor(Work work, std::uint32_t num_envs) const;
  void Publish(Job& job, std::uint32_t first, Plan plan);
  void Wake(int first_home, int num_homes, int threads, bool is_helped, bool insists);
  void WakeAnother(int home);
  void WakeForWaitingWork();

  bool StartThread(int home);  // under mutex_
  void ThreadMain(int home, Thread& thread);
  bool WorkUntilNone(int home, Scratch& scratch, VisitWatch* watch);
  Ran RunSome(int home, Scratch& scratch, VisitWatch* watch);
  Ran RunChunk(const Chunk& chunk, Scratch& scratch, VisitWatch* watch);
  bool VisitWatched(Job& job, std::span<const std::uint32_t> envs, Scratch& scratch, VisitWatch& watch);
  bool IsAtHand(std::uint32_t, Op) const override { return true; }
  bool SharePhase(Job& job) override;
  void WorkUntilFinished(Job& job, InterruptCheck interrupted);
  void RunInline(Job& job, InterruptCheck interrupted);
  void HelpUntilFinished(Job& job, bool works, InterruptCheck interrupted);
  bool IsTimeToAsk(EventCount::Clock::time_point now);
  void GiveUpHung(Clock::time_point since);
  void LookAfterWork(Clock::time_point since);

  const ThreadOptions options_;
  const HomeMap homes_;
  CostModel cost_;
  // When the last call ended that had work for more than one thread: from then on the threads spin.
  std::atomic<Clock::time_point> ended_at_{};
  std::vector<std::unique_ptr<HomeThread>> home_threads_;  // one for each home
  EventCount ended_;                                       // notified when a thread ends
  std::atomic<bool> stop_{false};

  std::mutex helper_mutex_;  // held by a caller that helps while it waits: one at a time uses these
  Scratch helper_scratch_;
  EventCount::Clock::time_point last_asked_{};

  mutable std::mutex mutex_;
  std::vector<Hung> hung_;
};

}  // namespace torchrl_pool::core

#endif  // TORCHRL_POOL_CORE_THREADS_THREAD_EXECUTOR_H_
