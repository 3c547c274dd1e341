// Worker processes as a crew: envs of any kind, each of which lives in one of them.
//
// A ticket's envs are asked for in the mailboxes of their workers when it takes off. Its visits, which copy
// what a worker has written, are made by whoever waits, as the workers finish: the pool has no threads here.
// One who waits leads at a time, the others sleep until it has delivered something or leaves.
#ifndef TORCHRL_POOL_CORE_WORKERS_WORKER_CREW_H_
#define TORCHRL_POOL_CORE_WORKERS_WORKER_CREW_H_

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "crew.h"
#include "workers/arena.h"
#include "workers/remote_task.h"

namespace torchrl_pool::core {

// What the crew asks of whoever has started the processes.
struct WorkerOptions {
  std::shared_ptr<Arena> arena;
  std::vector<int> processes;  // per worker, its pidfd; -1: there is none, and `serve` does its work
  std::optional<std::chrono::steady_clock::duration> step_timeout;  // after which a worker is ended

  std::function<void()> serve;                          // empties such mailboxes; throws Interrupted
  std::function<std::string(int worker)> how_it_ended;  // in words that follow "its worker process"
  std::function<int(int worker)> respawn;               // its new pidfd; null: what has ended stays so
  std::function<std::string(std::uint32_t env)> save;   // a state; throws std::exception
  std::function<void(std::uint32_t env, std::string_view)> load;
};

class WorkerCrew final : public Crew {
 public:
  WorkerCrew(EnvTable& envs, TicketBox& tickets, WorkerOptions options);

  void Start() override {}
  int num_threads() const override { return static_cast<int>(workers_.size()); }
  void Begin(Ticket& ticket) override;
  void WaitFor(Ticket& ticket, InterruptCheck interrupted) override;
  std::uint64_t Deliveries() const override { return deliveries_.load(std::memory_order_acquire); }
  bool WorkUntil(std::uint64_t deliveries, Clock::time_point until) override;
  void LookAfterWork() override;
  void Stop() override {}
  bool WaitForThreads(InterruptCheck interrupted) override;
  bool Join() override;

  // The workers that have ended, which no env can use.
  std::vector<int> Ended();
  // Another process has taken the place of one that has ended.
  void Replace(int worker, int process);

 private:
  // Envs of one ticket that a worker has been asked for, in the order of the requests. Without a ticket: for
  // a visit that waits for them itself.
  struct Run {
    Ticket* ticket;
    Request request;
    std::uint32_t index;    // of its first env in the ticket's list
    std::uint64_t end = 0;  // how many envs its worker will have finished with it
  };
  struct Worker {
    std::mutex mutex;
    std::deque<Run> pending;
    std::uint64_t asked = 0;  // envs, altogether
    // When it was last seen to have finished another env, or began to have something to do.
    Clock::time_point progress{};
    std::uint64_t looked_at = 0;  // how many it had finished then
    std::atomic<int> process{-1};
    std::atomic<bool> has_ended{false};
    std::string why;  // and that is what its envs have failed of
    // ---- The leader's.
    std::uint64_t finished_before = 0;  // it took the place of another one
    std::uint64_t seen = 0;             // of those that it has finished
    std::uint64_t awaited = 0;          // how many finished ones the leader waits for
  };

  void WriteActions(const Ticket& ticket, std::uint32_t first, std::uint32_t count);
  void Ask(int worker, const Run& run);
  void Post(int worker, const Request& request);
  void Serve();
  bool Pump(bool visits_all);
  bool IsWorthVisiting(int worker);
  bool PumpWorker(int worker);
  void Visit(Ticket& ticket, std::span<const std::uint32_t> envs);
  bool RunPhases(Ticket& ticket) override;
  template <class Enough>
  void Lead(const Enough& enough, Clock::time_point until, const Ticket* ticket, InterruptCheck interrupted);
  void AwaitLastOf(const Ticket& ticket);
  void Sleep(Clock::time_point until, bool for_each);
  void LookAtProcesses();
  void Bury(int worker, const std::string& why);
  void Lose(std::uint32_t env, const std::string& why);
  bool RoundTrip(RemoteEnv& remote, Op op);

  const WorkerOptions options_;
  Arena& arena_;
  std::size_t row_bytes_ = 0;  // of an env's outputs
  std::vector<RemoteEnv> remotes_;
  std::vector<std::unique_ptr<Worker>> workers_;

  std::recursive_mutex leading_;  // held by the leader; it may look into an env that it visits
  Scratch scratch_;               // the leader's
  Clock::time_point last_asked_{};
  bool was_interrupted_ = false;
  bool is_over_ = false;                         // nothing is visited any more
  std::array<Clock::duration, 2> last_waits_{};  // for the last env of a worker, for any env
  std::atomic<std::uint64_t> deliveries_{0};     // so far, by leaders
  EventCount relay_;                             // something was delivered, or the leader leaves
};

}  // namespace torchrl_pool::core

#endif  // TORCHRL_POOL_CORE_WORKERS_WORKER_CREW_H_
