#include "workers/worker_crew.h"

#include <algorithm>
#include <cstdio>
#include <limits>
#include <utility>

#include "cpu.h"
#include "errors.h"
#include "perturb.h"
#include "phases.h"
#include "stages/one_hot.h"
#include "workers/process.h"

namespace torchrl_pool::core {
namespace {

// Bytes of observations that are better copied while their worker goes on.
constexpr std::size_t kWorthCopying = std::size_t{1} << 17;
constexpr std::uint64_t kNever = std::numeric_limits<std::uint64_t>::max();
constexpr auto kForever = EventCount::Clock::time_point::max();

}  // namespace

WorkerCrew::WorkerCrew(EnvTable& envs, TicketBox& tickets, WorkerOptions options)
    : Crew(envs, tickets), options_(std::move(options)), arena_(*options_.arena), scratch_(envs.layout()) {
  for (std::uint32_t env = 0; env < envs.size(); ++env) {
    remotes_.push_back({env,
                        Op::kReset,
                        &arena_,
                        [this](RemoteEnv& remote, Op op) { return RoundTrip(remote, op); },
                        options_.save,
                        options_.load,
                        {}});
  }
  for (const std::size_t bytes : arena_.shape().output_bytes) row_bytes_ += bytes;
  for (const int process : options_.processes) {
    workers_.push_back(std::make_unique<Worker>());
    workers_.back()->process = process;
  }
}

// ---- asking -------------------------------------------------------------------------------------

void WorkerCrew::Begin(Ticket& ticket) {
  const std::span<const std::uint32_t> envs = ticket.envs;
  const auto count = static_cast<std::uint32_t>(envs.size());
  ticket.plan.threads = num_threads() + 1;  // its work is elsewhere: whoever waits has time
  ticket.remaining.store(count, std::memory_order_relaxed);
  if (count == 0) return ticket.finished.store(true, std::memory_order_relaxed);
  const auto& wanted = ticket.out.base;
  const bool seed_only = ticket.op == Op::kReset && !ticket.entropy.empty() &&
                         std::all_of(wanted.begin(), wanted.end(), [](const auto* base) { return !base; });
  const auto& first_env = arena_.shape().first_env;
  int worker = 0;
  // The ticket may be over before this returns: nothing of it is read after its last envs are asked for.
  for (std::uint32_t begin = 0; begin < count;) {
    const std::uint32_t env = envs[begin];
    while (env >= first_env[static_cast<std::size_t>(worker) + 1]) ++worker;
    const std::uint32_t limit = first_env[static_cast<std::size_t>(worker) + 1];
    std::uint32_t size = 1;
    while (begin + size < count && envs[begin + size] == env + size && env + size < limit) ++size;
    for (std::uint32_t i = begin; i < begin + size; ++i) {
      EnvCell& cell = arena_.cell(envs[i]);
      const EnvSlot& slot = envs_.slot(envs[i]);
      cell.step = cell.root = EnvCell::kNone;
      cell.is_last = slot.max_episode_steps > 0 && slot.elapsed_steps + 1 >= slot.max_episode_steps;
      cell.num_words = 0;
      remotes_[envs[i]].last = ticket.op;
      if (ticket.op == Op::kReset && !ticket.entropy.empty()) {
        const auto& words = ticket.entropy[envs[i]];
        const bool fits = words.size() <= EnvCell::kMaxWords;
        cell.num_words = fits ? static_cast<std::uint32_t>(words.size()) : EnvCell::kTooManyWords;
        if (fits) std::copy(words.begin(), words.end(), cell.words);
      }
    }
    if (ticket.op == Op::kStep || ticket.op == Op::kStepAndReset) WriteActions(ticket, env, size);
    const Run run{
        &ticket, {ticket.op, seed_only, env - first_env[static_cast<std::size_t>(worker)], size}, begin};
    begin += size;
    Ask(worker, run);
  }
}

// As the envs take them.
void WorkerCrew::WriteActions(const Ticket& ticket, std::uint32_t first, std::uint32_t count) {
  const auto& columns = envs_.layout().actions;
  for (std::size_t i = 0; i < columns.size(); ++i) {
    const Rows from = ticket.actions.RowsFrom(i, first);
    const std::size_t bytes = arena_.shape().action_bytes[i];
    if (!columns[i].one_hot) {
      CopyRows(from, {arena_.ActionRow(i, first), bytes}, bytes, count);
      continue;
    }
    for (std::uint32_t row = 0; row < count; ++row) {
      DecodeOneHot(columns[i].spec.categories,
                   reinterpret_cast<const std::int64_t*>(from.base + row * from.stride),
                   reinterpret_cast<std::int64_t*>(arena_.ActionRow(i, first + row)));
    }
  }
}

void WorkerCrew::Ask(int index, const Run& run) {
  Worker& worker = *workers_[static_cast<std::size_t>(index)];
  Perturb();
  std::lock_guard lock(worker.mutex);
  if (worker.pending.empty()) worker.progress = Clock::now();
  worker.asked += run.request.count;
  worker.pending.push_back(run);
  worker.pending.back().end = worker.asked;
  arena_.mailbox(index).asked.store(worker.asked, std::memory_order_relaxed);
  if (!worker.has_ended) return Post(index, run.request);
  const std::uint32_t first = arena_.shape().first_env[static_cast<std::size_t>(index)] + run.request.first;
  for (std::uint32_t env = first; env < first + run.request.count; ++env) Lose(env, worker.why);
  arena_.mailbox(index).finished.store(worker.asked, std::memory_order_seq_cst);
  arena_.bell().Ring();
}

void WorkerCrew::Post(int index, const Request& request) {
  Mailbox& mailbox = arena_.mailbox(index);
  const std::uint64_t number = mailbox.posted.load(std::memory_order_relaxed);
  arena_.request(index, number).store(request.Pack(), std::memory_order_relaxed);
  Perturb();
  mailbox.posted.store(number + 1, std::memory_order_seq_cst);
  mailbox.doorbell.Ring();
}

// ---- what workers have finished -----------------------------------------------------------------

// Does what is asked for in this process, if there is something.
void WorkerCrew::Serve() {
  if (!options_.serve) return;
  for (int index = 0; index < num_threads(); ++index) {
    const Mailbox& mailbox = arena_.mailbox(index);
    const bool is_asked =
        mailbox.asked.load(std::memory_order_acquire) != mailbox.finished.load(std::memory_order_acquire);
    if (workers_[static_cast<std::size_t>(index)]->process < 0 && is_asked) return options_.serve();
  }
}

// Visits the envs that workers have finished. By the leader. Whether there were any. Unless it shall visit
// all, a few envs before the last one that it waits for are left for later: who looks after each of them
// takes a processor from the workers.
bool WorkerCrew::Pump(bool visits_all) {
  if (is_over_) return false;
  Serve();
  if (std::exchange(was_interrupted_, false)) throw Interrupted();
  bool any = false;
  for (int worker = 0; worker < num_threads(); ++worker) {
    if (visits_all || IsWorthVisiting(worker)) any |= PumpWorker(worker);
  }
  return any;
}

bool WorkerCrew::IsWorthVisiting(int index) {
  const Worker& worker = *workers_[static_cast<std::size_t>(index)];
  const std::uint64_t finished = arena_.mailbox(index).finished.load(std::memory_order_acquire);
  return finished >= worker.awaited || (finished - worker.seen) * row_bytes_ >= kWorthCopying;
}

bool WorkerCrew::PumpWorker(int index) {
  Worker& worker = *workers_[static_cast<std::size_t>(index)];
  const std::uint64_t finished = arena_.mailbox(index).finished.load(std::memory_order_acquire);
  if (worker.seen == finished || is_over_) return false;
  while (worker.seen < finished) {
    Run run;
    {
      Perturb();
      std::lock_guard lock(worker.mutex);
      Run& front = worker.pending.front();
      run = front;
      run.request.count =
          static_cast<std::uint32_t>(std::min<std::uint64_t>(finished - worker.seen, front.request.count));
      front.index += run.request.count;
      front.request.first += run.request.count;
      front.request.count -= run.request.count;
      if (front.request.count == 0) worker.pending.pop_front();
    }
    worker.seen += run.request.count;
    if (run.ticket) Visit(*run.ticket, run.ticket->envs.subspan(run.index, run.request.count));
  }
  deliveries_.fetch_add(1, std::memory_order_release);
  relay_.Notify();
  return true;
}

void WorkerCrew::Visit(Ticket& ticket, std::span<const std::uint32_t> envs) {
  if (ticket.op == Op::kCreate) {
    scratch_.results.clear();
    scratch_.faults.clear();
    for (const std::uint32_t env : envs) {
      envs_.NewSlot(env).env = reinterpret_cast<trp_env*>(&remotes_[env]);
      const bool is_made = arena_.cell(env).root == EnvCell::kOk;
      scratch_.results.push_back(is_made ? Result::kOk : Result::kFailed);
      if (!is_made) scratch_.faults.push_back({env, "", EnvFault::kInCreation});
    }
  } else {
    VisitEnvs(ticket, envs, scratch_, nullptr);
  }
  for (const std::uint32_t env : envs) arena_.cell(env).step = arena_.cell(env).root = EnvCell::kNone;
  for (EnvFault& fault : scratch_.faults) {  // in full: a task's error has little room
    std::string whole = arena_.MessageOf(static_cast<std::uint32_t>(fault.env_index));
    if (whole.starts_with(fault.message)) fault.message = std::move(whole);  // else it is a stage's
  }
  Deliver(ticket, envs, scratch_.results, scratch_.faults);
}

bool WorkerCrew::RunPhases(Ticket& ticket) {
  while (NextPhase(envs_.layout(), envs_.all(), ticket)) RunPhase(envs_.layout(), ticket, ticket.envs);
  return true;
}

// A visit asks for more than its worker has done: the leader waits for it.
bool WorkerCrew::RoundTrip(RemoteEnv& remote, Op op) {
  const std::lock_guard leading(leading_);
  const auto& first_env = arena_.shape().first_env;
  const auto after = std::upper_bound(first_env.begin(), first_env.end(), remote.env);
  const int index = static_cast<int>(after - first_env.begin()) - 1;
  Worker& worker = *workers_[static_cast<std::size_t>(index)];
  EnvCell& cell = arena_.cell(remote.env);
  cell.step = cell.root = EnvCell::kNone;
  cell.num_words = 0;
  Ask(index, {nullptr, {op, false, remote.env - first_env[static_cast<std::size_t>(index)], 1}, 0});
  std::uint64_t number = 0;
  {
    std::lock_guard lock(worker.mutex);
    number = worker.asked;
  }
  const Mailbox& mailbox = arena_.mailbox(index);
  const auto start = Clock::now();
  const auto is_over = [&] { return mailbox.finished.load(std::memory_order_acquire) >= number; };
  for (Backoff backoff; !is_over();) {
    try {
      Serve();
    } catch (const Interrupted&) {
      was_interrupted_ = true;  // the visit comes to its end first
    }
    if (backoff.Pause() || is_over()) continue;
    const bool is_late = options_.step_timeout && Clock::now() - start > *options_.step_timeout;
    if (worker.process >= 0 && (is_late || HasEnded(worker.process, 1))) {
      arena_.SetMessage(remote.env,
                        is_late ? "it has not come back in time" : "its worker process has ended");
      return false;  // the worker is buried by whoever waits
    }
  }
  return true;
}

// ---- waiting ------------------------------------------------------------------------------------

void WorkerCrew::WaitFor(Ticket& ticket, InterruptCheck interrupted) {
  const auto is_over = [&] { return ticket.finished.load(std::memory_order_acquire); };
  while (!is_over()) {
    if (leading_.try_lock()) {
      std::unique_lock leading(leading_, std::adopt_lock);
      const auto leave = [&] {
        leading.unlock();
        relay_.Notify();
      };
      try {
        Lead(is_over, kForever, &ticket, interrupted);
      } catch (...) {
        leave();
        throw;
      }
      leave();
    } else {
      const std::uint32_t key = relay_.PrepareWait();
      if (is_over()) return relay_.CancelWait();
      arena_.bell().Ring();  // whoever leads looks after this one's envs too
      relay_.Wait(key, kInterruptPeriod);
      if (!is_over() && interrupted()) throw Interrupted();
    }
  }
}

bool WorkerCrew::WorkUntil(std::uint64_t deliveries, Clock::time_point until) {
  if (leading_.try_lock()) {
    std::unique_lock leading(leading_, std::adopt_lock);
    Lead([&] { return Deliveries() != deliveries; }, until, nullptr, [] { return false; });
    leading.unlock();
    relay_.Notify();
  } else {
    const std::uint32_t key = relay_.PrepareWait();
    if (Deliveries() != deliveries) {
      relay_.CancelWait();
    } else {
      relay_.Wait(key, until - Clock::now());
    }
  }
  return true;
}

// For this ticket, or for whatever is finished first. Awake for a while after each thing that happened, if
// such a wait was short the last time, and then asleep: who stays awake takes a processor from the workers.
template <class Enough>
void WorkerCrew::Lead(const Enough& enough, Clock::time_point until, const Ticket* ticket,
                      InterruptCheck interrupted) {
  const bool for_each = ticket == nullptr;
  if (ticket) AwaitLastOf(*ticket);
  Clock::duration& last_wait = last_waits_[for_each];
  auto since = Clock::now();
  Backoff backoff(kPatience);
  while (!enough()) {
    bool any = Pump(for_each);
    if (!any && (last_wait > kPatience || !backoff.Pause())) {
      if (Clock::now() >= until) return;
      Sleep(until, for_each || relay_.HasSleepers());
      any = Pump(true);  // others may wait for what this one does not
    }
    const auto now = Clock::now();
    if (any) {
      backoff = Backoff(kPatience);
      last_wait = now - std::exchange(since, now);
    }
    if (now - last_asked_ < kInterruptPeriod || enough()) continue;
    last_asked_ = now;
    if (interrupted()) throw Interrupted();
    LookAtProcesses();
  }
  if (std::exchange(was_interrupted_, false)) throw Interrupted();
}

// Of each worker's envs of the ticket the last one is worth being woken for.
void WorkerCrew::AwaitLastOf(const Ticket& ticket) {
  for (const auto& worker : workers_) {
    const std::lock_guard lock(worker->mutex);
    worker->awaited = kNever;
    for (const Run& run : worker->pending) {
      if (run.ticket == &ticket) worker->awaited = run.end;
    }
  }
}

void WorkerCrew::Sleep(Clock::time_point until, bool for_each) {
  Doorbell& bell = arena_.bell();
  const std::uint32_t key = bell.PrepareWait();
  bool has_arrivals = false;
  for (int index = 0; index < num_threads(); ++index) {
    const Worker& worker = *workers_[static_cast<std::size_t>(index)];
    Mailbox& mailbox = arena_.mailbox(index);
    const std::uint64_t notify_at = for_each                       ? worker.seen + 1
                                    : worker.awaited > worker.seen ? worker.awaited
                                                                   : kNever;
    mailbox.notify_at.store(notify_at, std::memory_order_seq_cst);
    has_arrivals |= mailbox.finished.load(std::memory_order_seq_cst) >= notify_at;
  }
  Perturb();
  if (has_arrivals) return bell.CancelWait();
  const auto period = std::chrono::nanoseconds(kInterruptPeriod);
  const auto left = until == kForever ? period : std::chrono::nanoseconds(until - Clock::now());
  bell.Wait(key, std::clamp(left, std::chrono::nanoseconds(0), period));
}

// ---- the end ------------------------------------------------------------------------------------

bool WorkerCrew::Join() {
  if (!leading_.try_lock()) return false;
  is_over_ = true;
  leading_.unlock();
  return true;
}

bool WorkerCrew::WaitForThreads(InterruptCheck interrupted) {
  while (!Join()) {
    relay_.Wait(relay_.PrepareWait(), std::chrono::milliseconds(1));
    if (interrupted()) return Join();
  }
  return true;
}

// ---- workers that end ---------------------------------------------------------------------------

void WorkerCrew::LookAfterWork() {
  if (!leading_.try_lock()) return;
  const std::unique_lock leading(leading_, std::adopt_lock);
  Pump(true);
  LookAtProcesses();
}

// By the leader.
void WorkerCrew::LookAtProcesses() {
  const auto now = Clock::now();
  for (int index = 0; index < num_threads(); ++index) {
    Worker& worker = *workers_[static_cast<std::size_t>(index)];
    if (worker.process < 0 || worker.has_ended) continue;
    const std::uint64_t finished = arena_.mailbox(index).finished.load(std::memory_order_acquire);
    bool is_late = false;
    {
      std::lock_guard lock(worker.mutex);
      if (std::exchange(worker.looked_at, finished) != finished) worker.progress = now;
      is_late =
          worker.asked != finished && options_.step_timeout && now - worker.progress > *options_.step_timeout;
    }
    if (HasEnded(worker.process, 0)) {
      Bury(index, "its worker process " + options_.how_it_ended(index));
    } else if (is_late) {
      char text[64];
      const double seconds = std::chrono::duration<double>(*options_.step_timeout).count();
      std::snprintf(text, sizeof text, "it has not come back within %g s", seconds);
      Kill(worker.process);
      HasEnded(worker.process, 1000);
      Bury(index, text);
    }
  }
}

// Its process is no more. What it was asked for and has not finished is asked of another one, or has failed.
void WorkerCrew::Bury(int index, const std::string& why) {
  Worker& worker = *workers_[static_cast<std::size_t>(index)];
  PumpWorker(index);
  Mailbox& mailbox = arena_.mailbox(index);
  mailbox.doorbell.Forget();
  const auto for_pending = [&](const auto& act) {
    const std::uint32_t first = arena_.shape().first_env[static_cast<std::size_t>(index)];
    for (const Run& run : worker.pending) {
      for (std::uint32_t i = 0; i < run.request.count; ++i) act(first + run.request.first + i);
    }
  };
  // One that ends before it has finished anything would do so again.
  const std::uint64_t finished = mailbox.finished.load(std::memory_order_acquire);
  if (options_.respawn && worker.finished_before != finished) {
    worker.finished_before = finished;
    {
      const std::lock_guard lock(worker.mutex);
      mailbox.begin.store(mailbox.posted.load(std::memory_order_relaxed), std::memory_order_release);
      for_pending([&](std::uint32_t env) { arena_.cell(env).step = arena_.cell(env).root = EnvCell::kNone; });
      for (const Run& run : worker.pending) Post(index, run.request);
    }
    worker.process = options_.respawn(index);
    if (worker.process >= 0) {
      const std::lock_guard lock(worker.mutex);
      worker.progress = Clock::now();
      return;
    }
  }
  {
    const std::lock_guard lock(worker.mutex);
    worker.has_ended = true;
    worker.why = why;
    for_pending([&](std::uint32_t env) { Lose(env, why); });
    mailbox.finished.store(worker.asked, std::memory_order_seq_cst);
  }
  PumpWorker(index);
}

void WorkerCrew::Lose(std::uint32_t env, const std::string& why) {
  arena_.cell(env).step = arena_.cell(env).root = EnvCell::kFailed;
  arena_.SetMessage(env, why);
}

std::vector<int> WorkerCrew::Ended() {
  LookAfterWork();
  std::vector<int> ended;
  for (int index = 0; index < num_threads(); ++index) {
    Worker& worker = *workers_[static_cast<std::size_t>(index)];
    const std::lock_guard lock(worker.mutex);
    if (worker.has_ended) ended.push_back(index);
  }
  return ended;
}

void WorkerCrew::Replace(int index, int process) {
  Worker& worker = *workers_[static_cast<std::size_t>(index)];
  Mailbox& mailbox = arena_.mailbox(index);
  const std::lock_guard lock(worker.mutex);
  mailbox.begin.store(mailbox.posted.load(std::memory_order_relaxed), std::memory_order_release);
  worker.process = process;
  worker.has_ended = false;
}

}  // namespace torchrl_pool::core
