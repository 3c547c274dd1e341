// How a ticket's work reaches the threads, and what they do until it is done.
#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <system_error>

#include "cpu.h"
#include "errors.h"
#include "pool.h"

namespace torchrl_pool::core {
namespace {

using Clock = EventCount::Clock;

// Work on one thread that has taken this long was underestimated.
constexpr auto kLongInline = std::chrono::microseconds(100);
constexpr auto kInterruptPeriod = std::chrono::milliseconds(20);

// Without branches, so that the compiler can use vectors.
template <class T>
void CopyWhereNot(const std::byte* mask, const std::byte* from, std::byte* to, std::uint32_t count) {
  const auto* source = reinterpret_cast<const T*>(from);
  auto* target = reinterpret_cast<T*>(to);
  for (std::uint32_t i = 0; i < count; ++i) target[i] = mask[i] != std::byte{0} ? target[i] : source[i];
}

}  // namespace

void Pool::StartWorkers() {
  for (int i = 0; i < num_threads_; ++i) {
    try {
      workers_[static_cast<std::size_t>(i)]->thread = std::thread(&Pool::WorkerMain, this, i);
    } catch (const std::system_error& e) {
      throw PoolError("cannot start thread " + std::to_string(i) + " of " + std::to_string(num_threads_) +
                      ": " + e.what());
    }
  }
}

// Hands the ticket's envs from first_env on to the home queues that the plan names.
void Pool::Publish(const Ticket& ticket, std::uint32_t first_env) {
  const std::uint32_t chunk = cost_.ChunkSize(ticket.op);
  const std::uint64_t rest = num_envs() - first_env;
  auto run = ticket.runs.begin();
  for (int home = 0; home < plan_.threads; ++home) {
    const auto k = static_cast<std::uint64_t>(plan_.threads);
    const auto h = static_cast<std::uint64_t>(home);
    const auto begin = first_env + static_cast<std::uint32_t>(rest * h / k);
    const auto end = first_env + static_cast<std::uint32_t>(rest * (h + 1) / k);
    Worker& worker = *workers_[static_cast<std::size_t>(home)];
    for (; run != ticket.runs.end(); ++run) {
      const std::uint32_t stop = std::min(end, run->first + run->count);
      for (std::uint32_t env = std::max(begin, run->first); env < stop;) {
        const std::uint32_t count = std::min(chunk, stop - env);
        worker.queue.Push({0, env, count});
        env += count;
      }
      if (run->first + run->count > end) break;  // the rest of this run is the next thread's
    }
    if (home > 0 || !plan_.caller_helps) worker.parked.Notify();
  }
}

void Pool::WorkerMain(int self) {
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
  while (true) {
    Backoff backoff;
    do {
      if (stop_.load(std::memory_order_acquire)) return;
      if (RunSome(self, scratch)) backoff = Backoff();
    } while (backoff.Pause());
    const std::uint32_t key = me.parked.PrepareWait();
    if (stop_.load(std::memory_order_acquire) || !me.queue.empty()) {
      me.parked.CancelWait();
    } else {
      me.parked.Wait(key, std::chrono::hours(1));
    }
  }
}

// One chunk from the home queue, or else from another's.
bool Pool::RunSome(int self, Scratch& scratch) {
  Chunk chunk;
  for (int i = 0; i < num_threads_; ++i) {
    const int victim = (self + i) % num_threads_;
    if (workers_[static_cast<std::size_t>(victim)]->queue.Pop(&chunk)) {
      RunChunk(chunk, scratch);
      return true;
    }
  }
  return false;
}

void Pool::RunChunk(const Chunk& chunk, Scratch& scratch) {
  Ticket& ticket = TicketOf(chunk);
  const bool in_call = &ticket == &ticket_;
  const auto start = Clock::now();
  std::uint32_t resets = 0;
  for (std::uint32_t env = chunk.first; env < chunk.first + chunk.count; ++env) {
    scratch.error.message[0] = '\0';
    const Result result = Visit(layout_, ticket, env, slots_[env], scratch);
    resets += result == Result::kReset;
    if (result == Result::kFailed) {
      EnvFault fault{env, MessageOf(scratch.error)};
      if (in_call) {
        std::lock_guard lock(ticket.faults_mutex);
        ticket.faults.push_back(std::move(fault));
      } else {
        outbox_.Fail(ticket.op, std::move(fault));
      }
    }
    if (!in_call) scratch.results.push_back(result);
  }
  if (!in_call) {
    cost_.Measure(ticket.op, chunk.count, Clock::now() - start);
    outbox_.Deliver(ticket.op, chunk.first, scratch.results);
    scratch.results.clear();
    return;
  }
  if (resets > 0) ticket.resets.fetch_add(resets, std::memory_order_relaxed);
  cost_.Measure(ticket.op, chunk.count, Clock::now() - start);
  // Once the last env is counted the ticket may be used again: nothing of it is touched after this.
  if (ticket.remaining.fetch_sub(chunk.count, std::memory_order_acq_rel) == chunk.count) done_.Notify();
}

// Ticket 0 is the call's; the others are the async ones, by operation.
Ticket& Pool::TicketOf(const Chunk& chunk) {
  return chunk.ticket == 0 ? ticket_ : async_tickets_[chunk.ticket];
}

// To the home queues of the envs, under mutex_. Nobody waits for all of these envs: whoever receives the
// first of them goes on, so they are worked on by the pool's threads alone.
void Pool::PublishAsync(Op op, std::span<const std::uint32_t> envs) {
  const std::uint32_t longest = cost_.ChunkSize(op);
  const auto ticket = static_cast<std::uint32_t>(op);
  const std::size_t num_homes = workers_.size();
  std::vector<std::uint8_t> has_work(num_homes);
  for (std::size_t i = 0; i < envs.size();) {
    const std::size_t home = std::size_t{envs[i]} * num_homes / num_envs();
    std::uint32_t count = 1;
    while (i + count < envs.size() && count < longest && envs[i + count] == envs[i] + count &&
           std::size_t{envs[i + count]} * num_homes / num_envs() == home) {
      ++count;
    }
    workers_[home]->queue.Push({ticket, envs[i], count});
    has_work[home] = 1;
    i += count;
  }
  for (std::size_t home = 0; home < num_homes; ++home) {
    if (has_work[home]) workers_[home]->parked.Notify();
  }
}

// Runs the ticket on this thread alone, and shares what is left if it turns out to be long.
void Pool::RunInline(Ticket& ticket, InterruptCheck interrupted) {
  const auto start = Clock::now();
  std::uint32_t left = ticket.num_envs;
  for (const Run& run : ticket.runs) {
    for (std::uint32_t env = run.first; env < run.first + run.count;) {
      const std::uint32_t count = std::min(cost_.ChunkSize(ticket.op), run.first + run.count - env);
      RunChunk({0, env, count}, scratch_);
      env += count;
      left -= count;
      if (left == 0) return;
      if (Clock::now() - start > kLongInline) {
        plan_ = cost_.PlanFor(ticket.op, left);
        if (!RunsInline()) return Publish(ticket, env);
      }
      if (TimeToCheck() && interrupted()) {
        Abandon(ticket, left);
        throw Interrupted();
      }
    }
  }
}

void Pool::HelpUntilDone(Ticket& ticket, InterruptCheck interrupted) {
  const auto check = [&] {
    if (TimeToCheck() && interrupted()) {
      Abandon(ticket, 0);
      throw Interrupted();
    }
  };
  while (true) {
    Backoff backoff;
    do {
      if (ticket.remaining.load(std::memory_order_acquire) == 0) return;
      if (plan_.caller_helps && RunSome(0, scratch_)) {
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
void Pool::Abandon(Ticket& ticket, std::uint32_t not_started) {
  Chunk chunk;
  for (const auto& worker : workers_) {
    while (worker->queue.Pop(&chunk)) not_started += chunk.count;
  }
  ticket.remaining.fetch_sub(not_started, std::memory_order_acq_rel);
  abandoned_ = true;
  std::lock_guard lock(mutex_);
  SetState(ticket, EnvState::kInterrupted);
}

// Where some rows of the root got a new episode's first observation, the others continue from `out`.
void Pool::CompleteRoot(const Ticket& ticket) const {
  for (std::size_t i = 0; i < layout_.outputs.size(); ++i) {
    if (!ticket.root.base[i] || !ticket.out.base[i]) continue;
    const std::size_t bytes = layout_.outputs[i].row_bytes;
    const bool packed = ticket.root.stride[i] == bytes && ticket.out.stride[i] == bytes &&
                        ticket.out.stride[layout_.done] == 1;
    for (const Run& run : ticket.runs) {
      const std::byte* done = ticket.out.Row(layout_.done, run.first);
      const std::byte* from = ticket.out.Row(i, run.first);
      std::byte* to = ticket.root.Row(i, run.first);
      if (packed && bytes == 1) {
        CopyWhereNot<std::uint8_t>(done, from, to, run.count);
      } else if (packed && bytes == 4) {
        CopyWhereNot<std::uint32_t>(done, from, to, run.count);
      } else if (packed && bytes == 8) {
        CopyWhereNot<std::uint64_t>(done, from, to, run.count);
      } else {
        for (std::uint32_t k = 0; k < run.count; ++k) {
          if (done[k * ticket.out.stride[layout_.done]] != std::byte{0}) continue;
          std::memcpy(to + k * ticket.root.stride[i], from + k * ticket.out.stride[i], bytes);
        }
      }
    }
  }
}

}  // namespace torchrl_pool::core
