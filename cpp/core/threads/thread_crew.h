// The threads of a pool of C++ simulators: each with a home, a queue of what its envs have to do, and a place
// to sleep.
//
// A ticket is published once for each of its phases: its envs go to the queues of their homes, in chunks, and
// as many threads are woken as it is worth. Each takes from its own queue first and then from its
// neighbours'. Whoever delivers the last of a phase begins the next one, or finishes the ticket. Only work is
// waited for, never a thread.
#ifndef TORCHRL_POOL_CORE_THREADS_THREAD_CREW_H_
#define TORCHRL_POOL_CORE_THREADS_THREAD_CREW_H_

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
#include "crew.h"
#include "env_table.h"
#include "event_count.h"
#include "spin_policy.h"
#include "threads/cost_model.h"
#include "threads/home_map.h"
#include "threads/home_queue.h"
#include "ticket.h"
#include "ticket_box.h"
#include "visit.h"
#include "visit_watch.h"

namespace torchrl_pool::core {

struct ThreadOptions {
  int num_threads = 1;               // the one that waits included
  std::vector<int> thread_affinity;  // processors for the other threads, in turn; empty: not pinned
  // How long a thread may be inside one env for one op. After that the env counts as failed, another thread
  // takes the place of the one that hangs, and nobody waits for it any longer. Then no env runs on the
  // calling thread. None: for ever.
  std::optional<std::chrono::steady_clock::duration> step_timeout;
};

class ThreadCrew final : public Crew {
 public:
  ThreadCrew(EnvTable& envs, TicketBox& tickets, const ThreadOptions& options);

  void Start() override;
  int num_threads() const override { return homes_.size(); }
  void Begin(Ticket& ticket) override;
  void WaitFor(Ticket& ticket, InterruptCheck interrupted) override;
  void LookAfterWork() override;
  void FreeHung() override;
  std::optional<std::uint32_t> FindHung(std::span<const std::uint32_t> envs) const override;
  void Stop() override;
  bool WaitForThreads(InterruptCheck interrupted) override;
  bool Join() override;

 private:
  enum class Ran { kNothing, kChunk, kGivenUp };

  // What a thread, and it alone, tells the others.
  struct Thread {
    VisitWatch watch;
    std::atomic<bool> ended{false};
    std::unique_ptr<Scratch> scratch;  // made by who starts it, who can be told that there is no memory
    std::thread thread;
  };
  struct Worker {
    explicit Worker(std::uint32_t num_envs) : queue(num_envs) {}
    HomeQueue queue;
    EventCount parked;
    std::unique_ptr<Thread> thread;  // replaced when it hangs; guarded by mutex_
  };
  // A visit that was given up: what its thread may touch until it has ended.
  struct Hung {
    std::uint32_t env;
    std::unique_ptr<Thread> thread;
    Ticket* ticket;
  };

  Worker& worker(int home) { return *workers_[static_cast<std::size_t>(home)]; }
  ChunkSizes ChunkSizesOf(const Ticket& ticket) const;

  Plan PlanFor(Work work, std::uint32_t num_envs) const;
  void Publish(Ticket& ticket, std::uint32_t first, Plan plan);
  void Wake(int first_home, int num_homes, int threads, bool is_helped, bool insists);
  void WakeAnother(int home);
  void WakeForWaitingWork();

  bool StartThread(int home);  // under mutex_
  void ThreadMain(int home, Thread& thread);
  bool WorkUntilNone(int home, Scratch& scratch, VisitWatch* watch);
  Ran RunSome(int home, Scratch& scratch, VisitWatch* watch);
  Ran RunChunk(const Chunk& chunk, Scratch& scratch, VisitWatch* watch);
  Next RunPhases(Ticket& ticket) override;
  void RunInline(Ticket& ticket, InterruptCheck interrupted);
  void HelpUntilFinished(Ticket& ticket, bool works, InterruptCheck interrupted);
  bool IsTimeToAsk(EventCount::Clock::time_point now);
  void GiveUpHung();

  const ThreadOptions options_;
  const HomeMap homes_;
  CostModel cost_;
  SpinPolicy spin_policy_{
      kSpin};  // of calls that are waited for at once, and have work for more than one thread
  std::vector<std::unique_ptr<Worker>> workers_;  // one for each home
  EventCount ended_;                              // notified when a thread ends
  std::atomic<bool> stop_{false};

  std::mutex helper_mutex_;  // held by a thread that works while it waits: one at a time, with these
  Scratch helper_scratch_;
  EventCount::Clock::time_point last_asked_{};

  mutable std::mutex mutex_;
  std::vector<Hung> hung_;
};

}  // namespace torchrl_pool::core

#endif  // TORCHRL_POOL_CORE_THREADS_THREAD_CREW_H_
