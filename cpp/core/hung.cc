// Simulators that do not come back: a thread cannot be ended from outside, so it is left to itself.
//
// Whatever it may still touch stays alive and is used for nothing else: its env's slot, the ticket (which
// keeps the caller's memory), and, once the pool is closed, the pool. Should it come back it finds that its
// visit was given up, and ends; the env may then be reset.
#include <algorithm>
#include <cstdio>
#include <string>
#include <utility>

#include "cpu.h"
#include "errors.h"
#include "pool.h"

namespace torchrl_pool::core {
namespace {

std::string Seconds(EventCount::Clock::duration time) {
  char text[32];
  std::snprintf(text, sizeof text, "%g s", std::chrono::duration<double>(time).count());
  return text;
}

}  // namespace

// By whoever waits, now and then.
void Pool::GiveUpHung() {
  if (step_timeout_) GiveUp(EventCount::Clock::now() - *step_timeout_);
}

Outbox::InterruptCheck Pool::Watching(InterruptCheck interrupted) {
  return [this, interrupted] {
    GiveUpHung();
    ShareWaitingWork();
    return interrupted();
  };
}

// Visits that began before this time have failed; others take the places of their threads.
void Pool::GiveUp(EventCount::Clock::time_point began_before) {
  std::lock_guard lock(mutex_);
  for (int i = 0; i < num_threads_; ++i) {
    Worker& worker = *workers_[static_cast<std::size_t>(i)];
    if (!worker.thread) continue;
    const auto visit = worker.thread->watch.GiveUp(began_before);
    if (!visit) continue;
    const auto ticket = IsAsync(visit->ticket) ? nullptr : SharedTicket(visit->ticket);
    hung_.push_back({visit->env, std::move(worker.thread), ticket});
    EnvFault fault{visit->env, "it has not come back", visit->step, true};
    if (step_timeout_) fault.message += " within " + Seconds(*step_timeout_);
    if (ticket) {
      {
        std::lock_guard faults_lock(ticket->faults_mutex);
        ticket->faults.push_back(std::move(fault));
      }
      if (ticket->remaining.fetch_sub(1, std::memory_order_acq_rel) == 1) done_.Notify();
    } else {
      const Op op = static_cast<Op>(visit->ticket);
      const Result failed[] = {Result::kFailed};
      outbox_.Fail(op, std::move(fault));
      outbox_.Deliver(op, visit->env, failed);
    }
    if (!stop_.load(std::memory_order_relaxed)) StartWorker(i);
  }
}

// Under mutex_, by the thread in a call, when the ticket's work is done: one that hung threads share is
// theirs.
void Pool::RenewTicket(std::shared_ptr<Ticket>& ticket) {
  if (ticket.use_count() > 1) ticket = std::make_shared<Ticket>();
}

// What belongs to threads that have come back.
void Pool::FreeHung() {
  if (!step_timeout_) return;
  std::vector<Hung> ended;  // freed without the lock: the caller's memory may have locks of its own
  {
    const auto lock = Lock();
    const auto first = std::partition(hung_.begin(), hung_.end(), [](const Hung& hung) {
      return !hung.thread->ended.load(std::memory_order_acquire);
    });
    ended.assign(std::make_move_iterator(first), std::make_move_iterator(hung_.end()));
    hung_.erase(first, hung_.end());
  }
  for (Hung& hung : ended) hung.thread->thread.join();
}

// Under mutex_.
void Pool::CheckNotHung(std::uint32_t env) const {
  for (const Hung& hung : hung_) {
    if (hung.env != env) continue;
    throw PoolError("env " + std::to_string(env) +
                    " hangs: it can be reset once it has come back; until then leave it out by a mask");
  }
}

// ---- the end of a pool -------------------------------------------------------------------------

// For the pool's threads to end, without those that hang. False: interrupted.
bool Pool::WaitForThreads(InterruptCheck interrupted) {
  const auto all_ended = [this] {
    std::lock_guard lock(mutex_);
    return std::all_of(workers_.begin(), workers_.end(), [](const auto& worker) {
      return !worker->thread || worker->thread->ended.load(std::memory_order_acquire);
    });
  };
  while (true) {
    const std::uint32_t key = done_.PrepareWait();
    if (all_ended()) {
      done_.CancelWait();
      return true;
    }
    done_.Wait(key, kInterruptPeriod);
    GiveUpHung();
    if (interrupted()) return all_ended();
  }
}

// Frees what no thread uses any more. Whether that is everything. After `stop_`, one thread at a time.
bool Pool::FreeAll() {
  const auto join_ended = [](std::unique_ptr<Thread>& thread) {
    if (!thread || !thread->ended.load(std::memory_order_acquire)) return;
    thread->thread.join();
    thread.reset();
  };
  FreeHung();
  for (const auto& worker : workers_) join_ended(worker->thread);
  // A thread that was not watched may be in any env.
  for (const auto& worker : workers_) {
    if (worker->thread) return false;
  }
  for (std::uint32_t env = 0; env < num_envs(); ++env) {
    EnvSlot& slot = slots_[env];
    const bool hangs =
        std::any_of(hung_.begin(), hung_.end(), [env](const Hung& hung) { return hung.env == env; });
    if (hangs || !slot.env) continue;
    slot.config->task().destroy(slot.env);
    slot.env = nullptr;
  }
  return hung_.empty();
}

bool Pool::Retire(std::unique_ptr<Pool> pool, InterruptCheck interrupted) {
  // Never freed: threads that hang may outlive everything.
  static std::mutex& mutex = *new std::mutex;
  static auto& remains = *new std::vector<std::unique_ptr<Pool>>;
  if (!pool) return true;
  if (pool->forked()) {
    (void)pool.release();
    return false;
  }
  bool in_time = true;
  try {
    pool->Close(interrupted);
  } catch (const Interrupted&) {
    in_time = false;
  }
  bool freed = false;
  {
    std::lock_guard lock(mutex);
    std::erase_if(remains,
                  [](const auto& remaining) { return !remaining->forked() && remaining->FreeAll(); });
    freed = pool->FreeAll();
    if (!freed) remains.push_back(std::move(pool));
  }
  if (!in_time) throw Interrupted();
  return freed;
}

}  // namespace torchrl_pool::core
