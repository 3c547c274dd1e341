#include "pool.h"

#include <pthread.h>

#include <algorithm>
#include <utility>

#include "cpu.h"
#include "errors.h"
#include "perturb.h"
#include "validate.h"

namespace torchrl_pool::core {
namespace {

using Clock = EventCount::Clock;

std::atomic<unsigned> fork_generation{0};

unsigned ForkGeneration() {
  static const int registered =
      pthread_atfork(nullptr, nullptr, [] { fork_generation.fetch_add(1, std::memory_order_relaxed); });
  (void)registered;
  return fork_generation.load(std::memory_order_relaxed);
}

const Config* FirstConfig(const std::vector<EnvRequest>& envs) {
  if (envs.empty()) throw StatusError(TRP_INVALID_ARGUMENT, "a pool has at least one env");
  return envs[0].config.get();
}

std::string Plural(std::size_t count, const char* noun) {
  return std::to_string(count) + " " + noun + (count == 1 ? "" : "s");
}

}  // namespace

Pool::Pool(std::vector<EnvRequest> envs, const PoolOptions& options)
    : layout_(*FirstConfig(envs), options.layout),
      num_threads_(
          std::clamp(options.num_threads, 1, static_cast<int>(std::min<std::size_t>(envs.size(), 4096)))),
      thread_affinity_(options.thread_affinity),
      step_timeout_(options.step_timeout),
      fork_generation_(ForkGeneration()),
      slots_(envs.size()),
      episode_rewards_(envs.size() * layout_.reward_size),
      states_(envs.size(), EnvState::kUnset),
      is_sent_(envs.size()),
      ticket_(std::make_shared<Ticket>()),
      scratch_(layout_),
      cost_(num_threads_, AvailableCpus()),
      last_check_(Clock::now()),
      outbox_(static_cast<std::uint32_t>(envs.size())) {
  if (envs.size() > kMaxEnvs) {
    throw StatusError(TRP_INVALID_ARGUMENT, "a pool holds at most " + std::to_string(kMaxEnvs) + " envs");
  }
  for (std::size_t i = 0; i < envs.size(); ++i) {
    configs_.push_back(envs[i].config);
    const std::string mismatch = Mismatch(*configs_[0], *configs_[i]);
    if (!mismatch.empty()) throw StatusError(TRP_INVALID_ARGUMENT, mismatch);
    one_config_ = one_config_ && configs_[i] == configs_[0];
    slots_[i].config = configs_[i];
    slots_[i].max_episode_steps = envs[i].max_episode_steps;
    slots_[i].episode_rewards = {episode_rewards_.data() + i * layout_.reward_size, layout_.reward_size};
  }
  ticket_->runs.reserve(envs.size());
  for (int i = 0; i < num_threads_; ++i) workers_.push_back(std::make_unique<Worker>(num_envs()));
}

std::unique_ptr<Pool> Pool::Open(std::vector<EnvRequest> envs, const PoolOptions& options,
                                 InterruptCheck interrupted) {
  std::unique_ptr<Pool> pool(new Pool(std::move(envs), options));
  try {
    pool->Start(interrupted);
  } catch (...) {
    Retire(std::move(pool), interrupted);
    throw;
  }
  return pool;
}

void Pool::Start(InterruptCheck interrupted) {
  for (int i = 0; i < num_threads_; ++i) StartWorker(i);
  Ticket& ticket = Begin(Op::kCreate, interrupted);
  Submit(ticket, nullptr);
  Wait(ticket, interrupted);
  std::fill(states_.begin(), states_.end(), EnvState::kUnset);
}

Pool::~Pool() { Close(); }

bool Pool::forked() const { return fork_generation_ != fork_generation.load(std::memory_order_relaxed); }

// ---- the rules ----------------------------------------------------------------------------------

std::unique_lock<std::mutex> Pool::Lock() const {
  if (forked()) {
    throw PoolError(
        "this pool was created before the process forked; its threads exist only in the parent. Create the "
        "pool in the child, or use the 'spawn' start method");
  }
  Perturb();
  return std::unique_lock(mutex_);
}

void Pool::CheckUsable() const {
  if (closing_) throw PoolError("this pool is closed");
  if (in_call_) throw PoolError("another thread is in a call of this pool; one call at a time");
}

void Pool::CheckState(Op op, const Ticket& ticket) const {
  if (op == Op::kCreate) return;
  for (const Run& run : ticket.runs) {
    for (std::uint32_t env = run.first; env < run.first + run.count; ++env) CheckEnvState(op, env);
  }
}

void Pool::CheckEnvState(Op op, std::uint32_t env) const {
  const EnvState state = states_[env];
  const std::string name = "env " + std::to_string(env);
  if (state == EnvState::kInFlight) throw PoolError(name + " is in flight: receive it first");
  if (state == EnvState::kReady) return;
  if (op == Op::kReset) return CheckNotHung(env);
  if (state == EnvState::kUnset) {
    throw PoolError(name + " has not been reset: call reset() before the first step");
  }
  if (state == EnvState::kFailed) {
    throw PoolError(
        name + " has failed and must be reset before it can be stepped again: " + fault_messages_.at(env));
  }
  throw PoolError("a call was interrupted while " + name +
                  " was at work, so its state is unknown: reset it before the next step");
}

void Pool::CheckIndex(std::uint32_t env) const {
  if (env < num_envs()) return;
  throw StatusError(TRP_INVALID_ARGUMENT, "env_index " + std::to_string(env) + " is out of range for " +
                                              std::to_string(num_envs()) + " envs");
}

void Pool::SetState(const Ticket& ticket, EnvState state) {
  for (const Run& run : ticket.runs) {
    std::fill_n(states_.begin() + run.first, run.count, state);
  }
}

void Pool::MarkFailed(const std::vector<EnvFault>& faults) {
  for (const EnvFault& fault : faults) {
    const auto env = static_cast<std::uint32_t>(fault.env_index);
    states_[env] = EnvState::kFailed;
    fault_messages_[env] = fault.message;
  }
}

void Pool::SelectRuns(Ticket& ticket, const std::uint8_t* mask) const {
  ticket.runs.clear();
  ticket.num_envs = 0;
  if (!mask) {
    ticket.runs.push_back({0, num_envs()});
    ticket.num_envs = num_envs();
    return;
  }
  for (std::uint32_t env = 0; env < num_envs(); ++env) {
    if (!mask[env]) continue;
    ++ticket.num_envs;
    if (!ticket.runs.empty() && ticket.runs.back().first + ticket.runs.back().count == env) {
      ++ticket.runs.back().count;
    } else {
      ticket.runs.push_back({env, 1});
    }
  }
}

// From here to EndCall this thread alone uses the pool. What an interrupted call has left behind is done.
void Pool::BeginCall(InterruptCheck interrupted) {
  {
    const auto lock = Lock();
    CheckUsable();
    if (const std::size_t count = outbox_.outstanding(); count > 0) {
      throw PoolError(Plural(count, "env") + " in flight: receive them before a call for all envs");
    }
    StartCall();
  }
  if (abandoned_) {
    try {
      HelpUntilDone(*ticket_, interrupted);
    } catch (...) {
      EndCall();
      throw;
    }
    abandoned_ = false;
    {
      const auto lock = Lock();
      RenewTicket(ticket_);
    }
    ticket_->keepalive.reset();
    ticket_->faults.clear();  // their envs have to be reset anyway
  }
  FreeHung();
}

Ticket& Pool::Begin(Op op, InterruptCheck interrupted) {
  BeginCall(interrupted);
  Prepare(*ticket_, op);
  return *ticket_;
}

void Pool::Prepare(Ticket& ticket, Op op) const {
  ticket.op = op;
  ticket.entropy.clear();
  ticket.reset_options.clear();
  ticket.completes_root = false;
  ticket.recorded.clear();
  const auto prepare = [](Batch& batch, const auto& columns) {
    batch.base.assign(columns.size(), nullptr);
    batch.stride.resize(columns.size());
    for (std::size_t i = 0; i < columns.size(); ++i) batch.stride[i] = columns[i].row_bytes;
  };
  prepare(ticket.actions, layout_.actions);
  prepare(ticket.out, layout_.outputs);
  prepare(ticket.root, layout_.outputs);
}

// Under mutex_.
void Pool::StartCall() {
  in_call_ = true;
  caller_ = std::this_thread::get_id();
}

void Pool::EndCall() {
  Perturb();
  std::lock_guard lock(mutex_);
  in_call_ = false;
  call_ended_.notify_all();  // locked: once the lock is free, Close may go on and the pool may be gone
}

void Pool::Submit(Ticket& ticket, const std::uint8_t* mask) {
  try {
    SelectRuns(ticket, mask);
    plan_ = cost_.PlanFor(ticket.op, ticket.num_envs);
    if (step_timeout_) plan_.caller_helps = false;  // nobody could give up what it does
    Perturb();
    std::lock_guard lock(mutex_);
    Launch(ticket);
    if (!RunsInline()) Publish(kCallTicket, ticket, {0, num_envs()});
  } catch (...) {
    EndCall();
    throw;
  }
}

// Everything that can be wrong with the ticket, and then its counters. Under mutex_.
void Pool::Launch(Ticket& ticket) {
  if (ticket.op == Op::kStepAndReset && !ticket.out.base[layout_.done]) {
    throw PoolError("a step that resets writes the column 'done'");
  }
  CheckState(ticket.op, ticket);
  if (ticket.op == Op::kStep || ticket.op == Op::kStepAndReset) {
    for (const Run& run : ticket.runs) {
      if (one_config_) {
        CheckActions(layout_, *configs_[0], ticket.actions, run.first, run.count);
        continue;
      }
      for (std::uint32_t env = run.first; env < run.first + run.count; ++env) {
        CheckActions(layout_, *configs_[env], ticket.actions, env, 1);
      }
    }
  }
  SetState(ticket, EnvState::kInFlight);
  ticket.resets.store(0, std::memory_order_relaxed);
  ticket.remaining.store(ticket.num_envs, std::memory_order_relaxed);
}

std::uint32_t Pool::Wait(Ticket& ticket, InterruptCheck interrupted, const std::shared_ptr<void>& owner,
                         const std::function<void()>& meanwhile) {
  try {
    if (RunsInline()) {
      RunInline(ticket, interrupted);
    } else if (meanwhile) {
      meanwhile();
    }
    HelpUntilDone(ticket, interrupted);
  } catch (...) {
    Abandon(ticket);
    ticket.keepalive = owner;
    EndCall();
    throw;
  }
  return Finish(ticket_, owner);
}

// The call is over, and with it the ticket. `owner` owns its batches.
std::uint32_t Pool::Finish(std::shared_ptr<Ticket>& shared, const std::shared_ptr<void>& owner) {
  Ticket& ticket = *shared;
  const std::uint32_t resets = ticket.resets.load(std::memory_order_relaxed);
  std::vector<EnvFault> faults;
  faults.swap(ticket.faults);
  cost_.CallEnded();
  if (resets > 0 && faults.empty() && !ticket.completes_root) {
    for (const Run& run : ticket.runs) CompleteRoot(ticket, run);
  }
  {
    Perturb();
    std::lock_guard lock(mutex_);
    SetState(ticket, EnvState::kReady);
    MarkFailed(faults);
    const auto is_hung = [](const EnvFault& fault) { return fault.hung; };
    if (std::any_of(faults.begin(), faults.end(), is_hung)) ticket.keepalive = owner;
    RenewTicket(shared);
  }
  EndCall();
  if (!faults.empty()) ThrowFailure(std::move(faults));
  return resets;
}

void Pool::ThrowFailure(std::vector<EnvFault> faults) const {
  std::sort(faults.begin(), faults.end(),
            [](const EnvFault& a, const EnvFault& b) { return a.env_index < b.env_index; });
  const EnvFault& first = faults[0];
  std::string message = "env " + std::to_string(first.env_index) + " (" +
                        configs_[static_cast<std::size_t>(first.env_index)]->task().id + ") failed " +
                        (first.step == EnvFault::kInCreation ? "when it was created"
                         : first.step == EnvFault::kInReset  ? "in a reset"
                                                             : "in step " + std::to_string(first.step)) +
                        ": " + first.message;
  if (faults.size() > 1) message += " (and " + Plural(faults.size() - 1, "more env") + " failed too)";
  throw EnvFailure(message, std::move(faults));
}

// ---- the end ------------------------------------------------------------------------------------

void Pool::Close(InterruptCheck interrupted) {
  if (forked()) return;
  {
    std::unique_lock lock(mutex_);
    if (in_call_ && caller_ == std::this_thread::get_id()) {
      throw PoolError("this pool cannot be closed from within a call of it");
    }
    // Waiting for other threads' calls: an interrupt leaves everything as it is.
    const auto wait_until = [&](const auto& condition) {
      while (!call_ended_.wait_for(lock, kInterruptPeriod, condition)) {
        lock.unlock();
        const bool stop = interrupted();  // may take a lock of its own
        lock.lock();
        if (stop && !condition()) return false;
      }
      return true;
    };
    if (closing_) {
      if (!wait_until([this] { return closed_; })) throw Interrupted();
      return;
    }
    closing_ = true;
    if (!wait_until([this] { return !in_call_; })) {
      closing_ = false;
      throw Interrupted();
    }
  }
  stop_.store(true, std::memory_order_release);
  outbox_.Close();
  for (const auto& worker : workers_) worker->parked.Notify();
  const bool in_time = WaitForThreads(interrupted);
  if (FreeAll()) {
    ticket_->keepalive.reset();
    for (Group& group : groups_) group.ticket->keepalive.reset();
  }
  {
    Perturb();
    std::lock_guard lock(mutex_);
    closed_ = true;
    call_ended_.notify_all();
  }
  if (!in_time) throw Interrupted();
}

}  // namespace torchrl_pool::core
