// Workers that have died, exceeded the time limit, or corrupted the shared memory.
#include <algorithm>
#include <cstdio>
#include <thread>

#include "cpu.h"
#include "errors.h"
#include "perturb.h"
#include "workers/process.h"
#include "workers/worker_executor.h"

namespace torchrl_pool::core {

// Called by waiting threads; one at a time does it, which may take as long as starting a process.
void WorkerExecutor::LookAtWorkers(Clock::time_point since) {
  {
    const std::lock_guard lock(mutex_);
    if (is_over_ || looking_ != std::thread::id()) return;
    looking_ = std::this_thread::get_id();
  }
  struct Turn {
    ~Turn() {
      const std::lock_guard lock(executor.mutex_);
      executor.looking_ = {};
    }
    WorkerExecutor& executor;
  } turn{*this};
  const auto now = Clock::now();
  for (int index = 0; index < num_threads(); ++index) {
    const Worker& worker = *workers_[static_cast<std::size_t>(index)];
    if (worker.process >= 0 && !worker.has_ended) LookAt(index, now, since);
  }
}

void WorkerExecutor::LookAt(int index, Clock::time_point now, Clock::time_point since) {
  Worker& worker = *workers_[static_cast<std::size_t>(index)];
  const Mailbox& mailbox = arena_.mailbox(index);
  // In this order: it counts an env as finished after it has begun it, and is asked before.
  const std::uint64_t finished = mailbox.finished.load(std::memory_order_acquire);
  const std::uint64_t begun = mailbox.begun.load(std::memory_order_acquire);
  const std::uint64_t asked = worker.asked.load(std::memory_order_acquire);
  const bool is_sound = worker.finished <= finished && finished <= begun && begun <= asked;
  if (finished != worker.finished || begun != worker.begun) worker.unchanged.Begin(now);
  worker.finished = is_sound ? finished : worker.finished;
  worker.begun = begun;
  const bool is_at_work = begun != finished;  // and not idle, or asked by a user's call
  const bool is_late =
      is_at_work && options_.step_timeout && worker.unchanged.Exceeds(*options_.step_timeout, now, since);
  if (HasEnded(worker.process, 0)) {
    HandleLost(index, "its worker process " + options_.how_it_ended(index));
  } else if (!is_sound) {
    Kill(worker.process);
    HasEnded(worker.process, 1000);
    HandleLost(index, "its worker process was ended: something in it has overwritten memory that it shares");
  } else if (is_late) {
    char text[64];
    const double seconds = std::chrono::duration<double>(*options_.step_timeout).count();
    std::snprintf(text, sizeof text, "it has not come back within %g s", seconds);
    Kill(worker.process);
    HasEnded(worker.process, 1000);
    HandleLost(index, text);
  }
}

// Its process has ended. Unfinished requests are posted again for its replacement, or fail.
void WorkerExecutor::HandleLost(int index, const std::string& why) {
  Worker& worker = *workers_[static_cast<std::size_t>(index)];
  Mailbox& mailbox = arena_.mailbox(index);
  mailbox.doorbell.Forget();
  std::uint64_t finished = 0;
  {
    Perturb();
    const std::lock_guard lock(mutex_);
    finished = std::max(FinishedBy(index), worker.known);
    // One that ends before it has finished anything would do so again.
    if (!options_.respawn || worker.finished_before == finished) return End(index, why);
    mailbox.finished.store(finished, std::memory_order_seq_cst);
    mailbox.begun.store(finished, std::memory_order_relaxed);
    mailbox.begin.store(worker.posted, std::memory_order_release);
    for (const Run& run : worker.pending) {
      if (run.end <= finished) continue;
      Request rest = run.request;
      const auto over = static_cast<std::uint32_t>(finished - std::min(finished, run.begin()));
      rest.first += over;
      rest.count -= over;
      const std::uint32_t first = arena_.shape().first_env[static_cast<std::size_t>(index)] + rest.first;
      for (std::uint32_t env = first; env < first + rest.count; ++env) {
        arena_.cell(env).step = arena_.cell(env).root = EnvCell::kNone;
      }
      Post(index, rest);
    }
  }
  int process = -1;
  try {
    process = options_.respawn(index);  // if it is interrupted, the next look begins anew
  } catch (const StatusError& error) {
    const std::lock_guard lock(mutex_);
    return End(index, why + "; no other process could be started: " + error.what());
  }
  const std::lock_guard lock(mutex_);
  worker.process = process;
  worker.unchanged.Begin(Clock::now());
  worker.begun = worker.finished = worker.finished_before = finished;
}

// Fails its unfinished requests and all future ones. Under mutex_.
void WorkerExecutor::End(int index, const std::string& why) {
  Worker& worker = *workers_[static_cast<std::size_t>(index)];
  Mailbox& mailbox = arena_.mailbox(index);
  const std::uint64_t asked = worker.asked.load(std::memory_order_relaxed);
  const std::uint64_t finished = worker.has_ended ? worker.known : std::max(FinishedBy(index), worker.known);
  const std::uint32_t first = arena_.shape().first_env[static_cast<std::size_t>(index)];
  for (const Run& run : worker.pending) {
    const std::uint64_t over = std::max(finished, run.begin()) - run.begin();
    for (std::uint64_t i = over; i < run.request.count; ++i) {
      Fail(first + run.request.first + static_cast<std::uint32_t>(i), why);
    }
  }
  if (&worker.why != &why) worker.why = why;
  worker.known = asked;
  worker.has_ended = true;
  mailbox.begin.store(worker.posted, std::memory_order_release);
  mailbox.begun.store(asked, std::memory_order_relaxed);
  mailbox.finished.store(asked, std::memory_order_seq_cst);
  arena_.bell().Ring();
}

void WorkerExecutor::Fail(std::uint32_t env, const std::string& why) {
  arena_.cell(env).step = arena_.cell(env).root = EnvCell::kFailed;
  arena_.SetMessage(env, why);
}

std::vector<int> WorkerExecutor::Ended() {
  Serve();
  LookAtWorkers(Clock::now());
  std::vector<int> ended;
  for (int index = 0; index < num_threads(); ++index) {
    if (workers_[static_cast<std::size_t>(index)]->has_ended) ended.push_back(index);
  }
  return ended;
}

void WorkerExecutor::Replace(int index, int process) {
  Worker& worker = *workers_[static_cast<std::size_t>(index)];
  const std::lock_guard lock(mutex_);
  worker.process = process;
  worker.has_ended = false;
}

}  // namespace torchrl_pool::core
