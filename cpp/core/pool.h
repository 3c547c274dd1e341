// The executor: all envs of a batch, the threads that step them, and who may do what when.
//
// A call goes   Begin -> fill in the ticket -> Submit -> Wait.   The calling thread is one of the workers: it
// runs chunks of the ticket itself until none is left, and then waits only for work that others have
// claimed, never for a thread. Every thread has a home queue with a contiguous range of envs, so that an
// env's state stays in one core's cache, and takes from other queues only when its own is empty. Work that
// is too small to share never leaves the calling thread.
#ifndef TORCHRL_POOL_CORE_POOL_H_
#define TORCHRL_POOL_CORE_POOL_H_

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "cost_model.h"
#include "event_count.h"
#include "home_queue.h"
#include "layout.h"
#include "outbox.h"
#include "ticket.h"
#include "visit.h"
#include "visit_watch.h"

namespace torchrl_pool::core {

struct EnvRequest {
  std::shared_ptr<const Config> config;
  std::int64_t max_episode_steps;  // 0: no limit
};

struct PoolOptions {
  int num_threads = 1;               // the calling thread included
  std::vector<int> thread_affinity;  // processors for the other threads, in turn; empty: not pinned
  LayoutOptions layout;
  // How long a thread may be inside one env for one op. After that the env counts as failed, another thread
  // takes the place of the one that hangs, and nobody waits for it any longer. Then no env runs on the
  // calling thread. None: for ever.
  std::optional<std::chrono::steady_clock::duration> step_timeout;
};

class Pool {
 public:
  // Asked now and then while waiting; true gives the wait up.
  using InterruptCheck = bool (*)();

  // Creates the simulators, in parallel. Throws StatusError, EnvFailure or Interrupted.
  static std::unique_ptr<Pool> Open(std::vector<EnvRequest> envs, const PoolOptions& options,
                                    InterruptCheck interrupted);

  // Closes the pool and frees it; true. But a thread that hangs inside a simulator may still use all that the
  // pool has: then that stays, for a later Retire to free, and this is false. Throws Interrupted when all is
  // done.
  static bool Retire(std::unique_ptr<Pool> pool, InterruptCheck interrupted);

  // Closes it. Not where a thread hangs: Retire does.
  ~Pool();
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  // Whether this is a copy in a forked child. Its threads were left behind in the parent, perhaps holding
  // locks: such a pool can be neither used nor destroyed, only forgotten.
  bool forked() const;

  const Layout& layout() const { return layout_; }
  std::uint32_t num_envs() const { return static_cast<std::uint32_t>(slots_.size()); }
  int num_threads() const { return num_threads_; }

  // ---- one call: any thread, but one call at a time. All throw PoolError when the rules are broken. ----

  // The ticket to fill in, with batches of the layout's columns, null bases and contiguous strides.
  Ticket& Begin(Op op, InterruptCheck interrupted);

  // Starts the work of the envs where mask is non-zero (null: all). Nothing has changed if it throws, and
  // the call is over.
  void Submit(Ticket& ticket, const std::uint8_t* mask);

  // Helps until the ticket is done; the call is over when it returns or throws. Throws EnvFailure for envs
  // that failed, after all others have finished, and Interrupted, after which the envs of the ticket must be
  // reset. Returns how many rows of the root hold a new episode's first observation; if there are any, the
  // others have been copied there from `out`. After an interrupt, and when an env hangs, the pool holds on to
  // `owner`, which is whatever owns the memory of the batches, until the last thread has left it. `meanwhile`
  // is called first where other threads are at work already, and else not at all; when it throws, that is as
  // an interrupt is.
  std::uint32_t Wait(Ticket& ticket, InterruptCheck interrupted, const std::shared_ptr<void>& owner = nullptr,
                     const std::function<void()>& meanwhile = nullptr);

  // ---- groups: runs of envs that step while the caller does something else, each by a call of its own ----

  // As Begin, Submit and Wait; but the call is over when SubmitGroup returns, and others may follow for the
  // envs of no group in flight. The pool holds on to `owner` until WaitGroup has returned. After an interrupt
  // the group is still in flight. Groups are numbered from 0 to kMaxGroups - 1.
  static constexpr std::uint32_t kMaxGroups = 64;
  Ticket& BeginGroup(std::uint32_t group, Op op, InterruptCheck interrupted);
  void SubmitGroup(std::uint32_t group, Run envs, std::shared_ptr<void> owner);
  std::uint32_t WaitGroup(std::uint32_t group, InterruptCheck interrupted);

  // ---- envs in flight: any threads, but not during a call, nor a call while envs are in flight ----

  // Where async results are written: rows for all envs, which stay what they are until Close has returned.
  void PrepareAsync(const Batch& out, const Batch& root);

  // Starts the work of these envs, which are distinct; the i-th row of `actions` is the i-th env's (null for
  // kReset) and is copied. Nothing has changed if it throws: StatusError, PoolError.
  void Send(Op op, std::span<const std::uint32_t> envs, const std::byte* const* actions, bool alone,
            InterruptCheck interrupted);

  // As Outbox::Receive and ReceiveAlone: the rows of these envs are there, and stay until Take. Throws
  // EnvFailure for envs that failed, which must be reset; what is ready waits for the next call.
  std::optional<Outbox::Received> Receive(Op op, std::size_t least, std::size_t most,
                                          std::optional<Outbox::Clock::duration> timeout,
                                          InterruptCheck interrupted);
  std::optional<Outbox::Received> ReceiveAlone(Op op, std::uint32_t env,
                                               std::optional<Outbox::Clock::duration> timeout,
                                               InterruptCheck interrupted);

  // Copies the rows of received envs, one after the other, to where the bases point (null: not wanted): those
  // of `out`, and of the root that follows, where there is one (kStepAndReset). Then the envs may be sent
  // again.
  void Take(Op op, const Outbox::Received& received, const std::byte* const* out,
            const std::byte* const* root);

  // ---- state and pictures: any thread, not during a call, nor of an env in flight ----

  std::vector<std::uint8_t> Save(std::uint32_t env_index);
  void Load(std::uint32_t env_index, const std::vector<std::uint8_t>& bytes);
  std::pair<std::int64_t, std::int64_t> RenderSize(std::uint32_t env_index);  // height, width
  void Render(std::uint32_t env_index, std::uint8_t* rgb);

  // Waits for a call in progress, ends the threads and destroys the simulators, but for those in which a
  // thread hangs. Any thread; idempotent. Throws Interrupted: either nothing has changed, because another
  // thread's call would not end, or the pool is closed and threads that would not end are left to themselves.
  void Close(InterruptCheck interrupted = [] { return false; });

 private:
  enum class EnvState : std::uint8_t { kUnset, kReady, kInFlight, kFailed, kInterrupted };

  struct Group {
    std::shared_ptr<Ticket> ticket = std::make_shared<Ticket>();  // as ticket_
    bool in_flight = false;                                       // guarded by mutex_
  };

  // How chunks name their tickets: the call's, the async ones by their operation, and the groups'.
  static constexpr std::uint32_t kCallTicket = 0;
  static constexpr std::uint32_t kFirstGroupTicket = kNumOps;
  static bool IsAsync(std::uint32_t ticket) { return ticket != kCallTicket && ticket < kFirstGroupTicket; }

  // What a thread, and it alone, tells the others.
  struct Thread {
    VisitWatch watch;
    std::atomic<bool> ended{false};
    std::thread thread;
  };
  struct Worker {
    explicit Worker(std::uint32_t num_envs) : queue(num_envs) {}
    HomeQueue queue;
    EventCount parked;
    std::unique_ptr<Thread> thread;  // replaced when it hangs
  };
  // A visit that was given up: what its thread may touch until it has ended.
  struct Hung {
    std::uint32_t env;
    std::unique_ptr<Thread> thread;
    std::shared_ptr<Ticket> ticket;
  };

  Pool(std::vector<EnvRequest> envs, const PoolOptions& options);
  void Start(InterruptCheck interrupted);

  // Locks mutex_, unless a fork has left it behind, perhaps locked for ever.
  std::unique_lock<std::mutex> Lock() const;

  // Under mutex_.
  void CheckUsable() const;
  EnvSlot& IdleSlot(std::uint32_t env_index);
  void CheckState(Op op, const Ticket& ticket) const;
  void SetState(const Ticket& ticket, EnvState state);
  void MarkFailed(const std::vector<EnvFault>& faults);
  void SelectRuns(Ticket& ticket, const std::uint8_t* mask) const;
  void ThrowUnlessOk(int status, const EnvSlot& slot, std::uint32_t env_index, const trp_error& error) const;

  void CheckIndex(std::uint32_t env) const;
  void CheckEnvState(Op op, std::uint32_t env) const;
  void CheckAsyncSend(Op op, std::span<const std::uint32_t> envs, const std::byte* const* actions);
  [[noreturn]] void ThrowFailure(std::vector<EnvFault> faults) const;
  void CheckReceived(const std::optional<Outbox::Received>& received);

  void BeginCall(InterruptCheck interrupted);
  void StartCall();
  void EndCall();
  void Prepare(Ticket& ticket, Op op) const;
  void Launch(Ticket& ticket);
  std::uint32_t Finish(std::shared_ptr<Ticket>& shared, const std::shared_ptr<void>& owner);
  bool RunsInline() const { return plan_.threads == 1 && plan_.caller_helps; }
  void StartWorker(int i);
  void Publish(std::uint32_t number, const Ticket& ticket, Run range);
  void WorkerMain(int self, Thread& thread);
  enum class Ran { kNothing, kChunk, kGivenUp };
  Ran RunSome(int self, Scratch& scratch, VisitWatch* watch);
  Ran RunChunk(const Chunk& chunk, Scratch& scratch, VisitWatch* watch);
  std::uint32_t LongestChunk(Op op) const { return step_timeout_ ? 1 : cost_.ChunkSize(op); }
  std::shared_ptr<Ticket>& SharedTicket(std::uint32_t number);
  Ticket& TicketOf(const Chunk& chunk);
  void PublishAsync(Op op, std::span<const std::uint32_t> envs);
  void WakeAnother(std::size_t home);
  void ShareWaitingWork();
  void RunInline(Ticket& ticket, InterruptCheck interrupted);
  void HelpUntilDone(Ticket& ticket, InterruptCheck interrupted);
  bool TimeToCheck();
  void Abandon(Ticket& ticket);
  void CompleteRoot(const Ticket& ticket, Run run) const;

  // ---- envs that hang: hung.cc
  void GiveUpHung();
  Outbox::InterruptCheck Watching(InterruptCheck interrupted);
  bool WaitForThreads(InterruptCheck interrupted);
  void GiveUp(EventCount::Clock::time_point began_before);
  void RenewTicket(std::shared_ptr<Ticket>& ticket);
  void FreeHung();
  void CheckNotHung(std::uint32_t env) const;
  bool FreeAll();

  const Layout layout_;
  const int num_threads_;
  const std::vector<int> thread_affinity_;
  const std::optional<EventCount::Clock::duration> step_timeout_;
  const unsigned fork_generation_;
  bool one_config_ = true;
  std::vector<std::shared_ptr<const Config>> configs_;  // per env
  std::vector<EnvSlot> slots_;
  std::vector<float> episode_rewards_;

  // Guarded by mutex_: who is in a call, and what each env may do next.
  mutable std::mutex mutex_;
  std::condition_variable call_ended_;
  bool in_call_ = false;
  bool closing_ = false, closed_ = false;
  std::thread::id caller_;  // in_call_: of that call
  std::vector<EnvState> states_;
  std::unordered_map<std::uint32_t, std::string> fault_messages_;
  std::vector<std::vector<std::byte>> async_actions_;  // per action: rows of all envs
  std::vector<std::uint8_t> is_sent_;                  // scratch of CheckAsyncSend
  std::vector<Hung> hung_;

  // Only the thread in a call.
  std::shared_ptr<Ticket> ticket_;  // shared with threads that hang in it; another one takes its place
  bool abandoned_ = false;          // the ticket was interrupted, and workers may still be at it
  Plan plan_{1, true};
  Scratch scratch_;
  CostModel cost_;
  EventCount::Clock::time_point last_check_;

  // Shared with the workers.
  std::vector<std::unique_ptr<Worker>> workers_;
  std::array<Ticket, kNumOps> async_tickets_;  // constant since PrepareAsync, but for their faults
  std::array<Group, kMaxGroups> groups_;
  Outbox outbox_;
  EventCount done_;
  std::atomic<bool> stop_{false};
};

}  // namespace torchrl_pool::core

#endif  // TORCHRL_POOL_CORE_POOL_H_
