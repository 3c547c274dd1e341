// How a ticket's work reaches the threads, and what they do until it is done.
#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <system_error>

#include "cpu.h"
#include "errors.h"
#include "perturb.h"
#include "pool.h"

namespace torchrl_pool::core {
namespace {

using Clock = EventCount::Clock;

// Work on one thread that has taken this long was underestimated.
constexpr auto kLongInline = std::chrono::microseconds(100);

// The step that a visit begins with, as EnvFault's.
std::int64_t FirstStepOf(Op op, const EnvSlot& slot) {
  if (op == Op::kCreate) return EnvFault::kInCreation;
  return op == Op::kReset ? EnvFault::kInReset : slot.elapsed_steps + 1;
}

}  // namespace

void Pool::StartWorker(int i) {
  auto thread = std::make_unique<Thread>();
  try {
    thread->thread = std::thread(&Pool::WorkerMain, this, i, std::ref(*thread));
  } catch (const std::system_error& e) {
    throw PoolError("cannot start thread " + std::to_string(i) + " of " + std::to_string(num_threads_) +
                    ": " + e.what());
  }
  workers_[static_cast<std::size_t>(i)]->thread = std::move(thread);
}

// Hands those of the ticket's envs that lie in `range` to the home queues that the plan names: each gets an
// equal share of the range, so that an env's home stays the same whichever others have been masked out.
void Pool::Publish(std::uint32_t number, const Ticket& ticket, Run range) {
  const std::uint32_t chunk = LongestChunk(ticket.op);
  const std::uint64_t rest = range.count;
  auto run = ticket.runs.begin();
  for (int home = 0; home < plan_.threads; ++home) {
    const auto k = static_cast<std::uint64_t>(plan_.threads);
    const auto h = static_cast<std::uint64_t>(home);
    const auto begin = range.first + static_cast<std::uint32_t>(rest * h / k);
    const auto end = range.first + static_cast<std::uint32_t>(rest * (h + 1) / k);
    Worker& worker = *workers_[static_cast<std::size_t>(home)];
    for (; run != ticket.runs.end(); ++run) {
      const std::uint32_t stop = std::min(end, run->first + run->count);
      for (std::uint32_t env = std::max(begin, run->first); env < stop;) {
        const std::uint32_t count = std::min(chunk, stop - env);
        worker.queue.Push({number, env, count});
        env += count;
      }
      if (run->first + run->count > end) break;  // the rest of this run is the next thread's
    }
    if (home > 0 || !plan_.caller_helps) worker.parked.Notify();
  }
}

void Pool::WorkerMain(int self, Thread& thread) {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);  // signals are the caller's business
  if (!thread_affinity_.empty()) {
    // The first processor is for thread 1, since thread 0 mostly sleeps.
    const int index = (self + num_threads_ - 1) % num_threads_;
    PinThisThread(thread_affinity_[static_cast<std::size_t>(index) % thread_affinity_.size()]);
  }
  Scratch scratch(layout_);
  Worker& me = *workers_[static_cast<std::size_t>(self)];
  VisitWatch* watch = step_timeout_ ? &thread.watch : nullptr;
  const auto work = [&] {  // until there is none for a while; false: never again
    Backoff backoff;
    do {
      if (stop_.load(std::memory_order_acquire)) return false;
      const Ran ran = RunSome(self, scratch, watch);
      if (ran == Ran::kGivenUp) return false;
      if (ran == Ran::kChunk) backoff = Backoff();
    } while (backoff.Pause());
    return true;
  };
  while (work()) {
    const std::uint32_t key = me.parked.PrepareWait();
    if (stop_.load(std::memory_order_acquire) || !me.queue.empty()) {
      me.parked.CancelWait();
    } else {
      me.parked.Wait(key, std::chrono::hours(1));
    }
  }
  thread.ended.store(true, std::memory_order_release);
  done_.Notify();
}

// One chunk from the home queue, or else from another's.
Pool::Ran Pool::RunSome(int self, Scratch& scratch, VisitWatch* watch) {
  Chunk chunk;
  for (int i = 0; i < num_threads_; ++i) {
    const int victim = (self + i) % num_threads_;
    if (workers_[static_cast<std::size_t>(victim)]->queue.Pop(&chunk)) return RunChunk(chunk, scratch, watch);
  }
  return Ran::kNothing;
}

Pool::Ran Pool::RunChunk(const Chunk& chunk, Scratch& scratch, VisitWatch* watch) {
  Ticket& ticket = TicketOf(chunk);
  const bool is_async = IsAsync(chunk.ticket);
  const auto start = Clock::now();
  std::uint32_t resets = 0;
  for (const RecordedColumn& column : ticket.recorded) {
    CopyRows(column.from.From(chunk.first), column.to.From(chunk.first), column.row_bytes, chunk.count);
  }
  for (std::uint32_t env = chunk.first; env < chunk.first + chunk.count; ++env) {
    scratch.error.message[0] = '\0';
    if (watch) watch->Begin({chunk.ticket, env, FirstStepOf(ticket.op, slots_[env])});
    const Result result = Visit(layout_, ticket, env, slots_[env], scratch);
    if (watch && !watch->End()) return Ran::kGivenUp;  // it is accounted for
    resets += result == Result::kReset;
    if (result == Result::kFailed) {
      EnvFault fault{env, MessageOf(scratch.error), scratch.step};
      if (is_async) {
        outbox_.Fail(ticket.op, std::move(fault));
      } else {
        std::lock_guard lock(ticket.faults_mutex);
        ticket.faults.push_back(std::move(fault));
      }
    }
    if (is_async) scratch.results.push_back(result);
  }
  if (is_async) {
    cost_.Measure(ticket.op, chunk.count, Clock::now() - start);
    outbox_.Deliver(ticket.op, chunk.first, scratch.results);
    scratch.results.clear();
    return Ran::kChunk;
  }
  if (ticket.completes_root) CompleteRoot(ticket, {chunk.first, chunk.count});
  if (resets > 0) ticket.resets.fetch_add(resets, std::memory_order_relaxed);
  cost_.Measure(ticket.op, chunk.count, Clock::now() - start);
  Perturb();
  // Once the last env is counted the ticket may be used again: nothing of it is touched after this.
  if (ticket.remaining.fetch_sub(chunk.count, std::memory_order_acq_rel) == chunk.count) done_.Notify();
  return Ran::kChunk;
}

Ticket& Pool::TicketOf(const Chunk& chunk) {
  return IsAsync(chunk.ticket) ? async_tickets_[chunk.ticket] : *SharedTicket(chunk.ticket);
}

std::shared_ptr<Ticket>& Pool::SharedTicket(std::uint32_t number) {
  return number == kCallTicket ? ticket_ : groups_[number - kFirstGroupTicket].ticket;
}

// To the home queues of the envs, under mutex_. Nobody waits for all of these envs: whoever receives the
// first of them goes on, so they are worked on by the pool's threads alone.
void Pool::PublishAsync(Op op, std::span<const std::uint32_t> envs) {
  const std::uint32_t longest = LongestChunk(op);
  const auto ticket = static_cast<std::uint32_t>(op);
  const std::size_t num_homes = workers_.size();
  struct Load {
    std::uint32_t num_envs = 0;
    bool is_behind = false;  // has not even begun what it was given before
  };
  std::vector<Load> loads(num_homes);
  for (std::size_t i = 0; i < envs.size();) {
    const std::size_t home = std::size_t{envs[i]} * num_homes / num_envs();
    std::uint32_t count = 1;
    while (i + count < envs.size() && count < longest && envs[i + count] == envs[i] + count &&
           std::size_t{envs[i + count]} * num_homes / num_envs() == home) {
      ++count;
    }
    HomeQueue& queue = workers_[home]->queue;
    if (loads[home].num_envs == 0) loads[home].is_behind = !queue.empty();
    queue.Push({ticket, envs[i], count});
    loads[home].num_envs += count;
    i += count;
  }
  for (std::size_t home = 0; home < num_homes; ++home) {
    const Load& load = loads[home];
    if (load.num_envs == 0) continue;
    const bool begins = workers_[home]->parked.Notify();  // else its thread may be in a long step
    const bool is_late = load.is_behind && !begins;
    if (is_late || cost_.IsWorthWaking(op, load.num_envs - (begins ? 1 : 0))) WakeAnother(home);
  }
}

// One of the threads that sleep, if any does.
void Pool::WakeAnother(std::size_t home) {
  for (std::size_t i = 1; i < workers_.size(); ++i) {
    if (workers_[(home + i) % workers_.size()]->parked.Notify()) return;
  }
}

// What a send leaves to a thread that turns out to be held up, the others take: woken by whoever waits, now
// and then, or asks in vain.
void Pool::ShareWaitingWork() {
  const auto has_work = [](const auto& worker) { return !worker->queue.empty(); };
  if (std::none_of(workers_.begin(), workers_.end(), has_work)) return;
  for (const auto& worker : workers_) worker->parked.Notify();
}

// Runs the ticket on this thread alone, and shares what is left if it turns out to be long.
void Pool::RunInline(Ticket& ticket, InterruptCheck interrupted) {
  const auto start = Clock::now();
  std::uint32_t left = ticket.num_envs;
  for (const Run& run : ticket.runs) {
    for (std::uint32_t env = run.first; env < run.first + run.count;) {
      const std::uint32_t count = std::min(cost_.ChunkSize(ticket.op), run.first + run.count - env);
      RunChunk({kCallTicket, env, count}, scratch_, nullptr);
      env += count;
      left -= count;
      if (left == 0) return;
      if (Clock::now() - start > kLongInline) {
        plan_ = cost_.PlanFor(ticket.op, left);
        if (!RunsInline()) return Publish(kCallTicket, ticket, {env, num_envs() - env});
      }
      if (TimeToCheck() && interrupted()) {
        ticket.remaining.fetch_sub(left, std::memory_order_acq_rel);
        throw Interrupted();
      }
    }
  }
}

void Pool::HelpUntilDone(Ticket& ticket, InterruptCheck interrupted) {
  const auto check = [&] {
    if (TimeToCheck() && interrupted()) throw Interrupted();
  };
  while (true) {
    Backoff backoff;
    do {
      if (ticket.remaining.load(std::memory_order_acquire) == 0) return;
      if (plan_.caller_helps && RunSome(0, scratch_, nullptr) == Ran::kChunk) {
        check();
        backoff = Backoff();
      }
    } while (backoff.Pause());
    const std::uint32_t key = done_.PrepareWait();
    if (ticket.remaining.load(std::memory_order_acquire) == 0) {
      done_.CancelWait();
      return;
    }
    done_.Wait(key, kInterruptPeriod);
    if (ticket.remaining.load(std::memory_order_acquire) == 0) return;
    last_check_ = {};
    check();
    GiveUpHung();
  }
}

bool Pool::TimeToCheck() {
  const auto now = Clock::now();
  if (now - last_check_ < kInterruptPeriod) return false;
  last_check_ = now;
  return true;
}

// Takes back the work that nobody has begun. What others have begun goes on, into memory that the ticket
// keeps alive; the next call waits for it.
void Pool::Abandon(Ticket& ticket) {
  std::uint32_t not_started = 0;
  std::vector<Chunk> others;
  Chunk chunk;
  for (const auto& worker : workers_) {
    while (worker->queue.Pop(&chunk)) {
      if (chunk.ticket == kCallTicket) {
        not_started += chunk.count;
      } else {
        others.push_back(chunk);
      }
    }
    if (others.empty()) continue;
    for (const Chunk& other : others) worker->queue.Push(other);
    others.clear();
    worker->parked.Notify();
  }
  ticket.remaining.fetch_sub(not_started, std::memory_order_acq_rel);
  abandoned_ = true;
  std::lock_guard lock(mutex_);
  SetState(ticket, EnvState::kInterrupted);
}

// Where some rows of the root got a new episode's first observation, the others continue from `out`.
void Pool::CompleteRoot(const Ticket& ticket, Run run) const {
  const Rows done = ticket.out.RowsFrom(layout_.done, run.first);
  for (std::size_t i = 0; i < layout_.outputs.size(); ++i) {
    if (!ticket.root.base[i] || !ticket.out.base[i] || ticket.root.base[i] == ticket.out.base[i]) continue;
    CopyRowsWhereNot(done, ticket.out.RowsFrom(i, run.first), ticket.root.RowsFrom(i, run.first),
                     layout_.outputs[i].row_bytes, run.count);
  }
}

}  // namespace torchrl_pool::core
