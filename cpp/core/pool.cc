#include "pool.h"

#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <system_error>
#include <utility>

#include "cpu.h"
#include "errors.h"
#include "validate.h"

namespace torchrl_pool::core {
namespace {

using Clock = EventCount::Clock;
using std::chrono::duration_cast;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;

// Work on one thread that has taken this long was underestimated.
constexpr auto kLongInline = std::chrono::microseconds(100);
constexpr auto kInterruptPeriod = milliseconds(20);

std::atomic<unsigned> fork_generation{0};

unsigned ForkGeneration() {
  static const int registered =
      pthread_atfork(nullptr, nullptr, [] { fork_generation.fetch_add(1, std::memory_order_relaxed); });
  (void)registered;
  return fork_generation.load(std::memory_order_relaxed);
}

void SizeBatch(Batch& batch, std::size_t columns) {
  batch.base.assign(columns, nullptr);
  batch.stride.assign(columns, 0);
}

// Without branches, so that the compiler can use vectors.
template <class T>
void CopyWhereNot(const std::byte* mask, const std::byte* from, std::byte* to, std::uint32_t count) {
  const auto* source = reinterpret_cast<const T*>(from);
  auto* target = reinterpret_cast<T*>(to);
  for (std::uint32_t i = 0; i < count; ++i) target[i] = mask[i] != std::byte{0} ? target[i] : source[i];
}

const Config* FirstConfig(const std::vector<EnvRequest>& envs) {
  if (envs.empty()) throw StatusError(TRP_INVALID_ARGUMENT, "a pool has at least one env");
  return envs[0].config.get();
}

std::string Plural(std::size_t count, const char* noun) {
  return std::to_string(count) + " " + noun + (count == 1 ? "" : "s");
}

}  // namespace

Pool::Pool(std::vector<EnvRequest> envs, const PoolOptions& options, InterruptCheck interrupted)
    : layout_(*FirstConfig(envs), options.layout),
      num_threads_(
          std::clamp(options.num_threads, 1, static_cast<int>(std::min<std::size_t>(envs.size(), 4096)))),
      thread_affinity_(options.thread_affinity),
      fork_generation_(ForkGeneration()),
      slots_(envs.size()),
      episode_rewards_(envs.size() * layout_.reward_size),
      states_(envs.size(), EnvState::kUnset),
      scratch_(layout_),
      cost_(num_threads_, AvailableCpus()),
      last_check_(Clock::now()) {
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
  SizeBatch(ticket_.actions, layout_.actions.size());
  SizeBatch(ticket_.out, layout_.outputs.size());
  SizeBatch(ticket_.root, layout_.outputs.size());
  ticket_.runs.reserve(envs.size());
  for (int i = 0; i < num_threads_; ++i) workers_.push_back(std::make_unique<Worker>(num_envs()));

  try {
    StartWorkers();
    Ticket& ticket = Begin(Op::kCreate, interrupted);
    Submit(ticket, nullptr);
    Wait(ticket, interrupted);
  } catch (...) {
    Close();
    throw;
  }
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
  return std::unique_lock(mutex_);
}

void Pool::CheckUsable() const {
  if (closing_) throw PoolError("this pool is closed");
  if (in_call_) throw PoolError("another thread is in a call of this pool; one call at a time");
}

void Pool::CheckState(Op op, const Ticket& ticket) const {
  if (op != Op::kStep && op != Op::kStepAndReset) return;
  for (const Run& run : ticket.runs) {
    for (std::uint32_t env = run.first; env < run.first + run.count; ++env) {
      if (states_[env] == EnvState::kReady) continue;
      const std::string name = "env " + std::to_string(env);
      switch (states_[env]) {
        case EnvState::kReady:
          break;
        case EnvState::kUnset:
          throw PoolError(name + " has not been reset: call reset() before the first step");
        case EnvState::kFailed:
          throw PoolError(name + " has failed and must be reset before it can be stepped again: " +
                          fault_messages_.at(env));
        case EnvState::kInFlight:
          throw PoolError(name + " is already being stepped");
        case EnvState::kInterrupted:
          throw PoolError("a call was interrupted while " + name +
                          " was at work, so its state is unknown: reset it before the next step");
      }
    }
  }
}

void Pool::SetState(const Ticket& ticket, EnvState state) {
  for (const Run& run : ticket.runs) {
    std::fill_n(states_.begin() + run.first, run.count, state);
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

Ticket& Pool::Begin(Op op, InterruptCheck interrupted) {
  {
    const auto lock = Lock();
    CheckUsable();
    in_call_ = true;
    caller_ = std::this_thread::get_id();
  }
  if (abandoned_) {
    try {
      HelpUntilDone(ticket_, interrupted);
    } catch (...) {
      EndCall();
      throw;
    }
    abandoned_ = false;
    ticket_.keepalive.reset();
    ticket_.faults.clear();  // their envs have to be reset anyway
  }
  ticket_.op = op;
  ticket_.entropy.clear();
  const auto prepare = [](Batch& batch, const auto& columns) {
    for (std::size_t i = 0; i < columns.size(); ++i) {
      batch.base[i] = nullptr;
      batch.stride[i] = columns[i].row_bytes;
    }
  };
  prepare(ticket_.actions, layout_.actions);
  prepare(ticket_.out, layout_.outputs);
  prepare(ticket_.root, layout_.outputs);
  return ticket_;
}

void Pool::EndCall() {
  std::lock_guard lock(mutex_);
  in_call_ = false;
  call_ended_.notify_all();  // locked: once the lock is free, Close may go on and the pool may be gone
}

void Pool::Submit(Ticket& ticket, const std::uint8_t* mask) {
  try {
    SelectRuns(ticket, mask);
    std::lock_guard lock(mutex_);
    if (ticket.op == Op::kStepAndReset && !ticket.out.base[layout_.done]) {
      throw PoolError("a step that resets writes the column 'done'");
    }
    CheckState(ticket.op, ticket);
    if (ticket.op == Op::kStep || ticket.op == Op::kStepAndReset) {
      if (one_config_) {
        for (const Run& run : ticket.runs) {
          CheckActions(layout_, *configs_[0], ticket.actions, run.first, run.count);
        }
      } else {
        for (const Run& run : ticket.runs) {
          for (std::uint32_t env = run.first; env < run.first + run.count; ++env) {
            CheckActions(layout_, *configs_[env], ticket.actions, env, 1);
          }
        }
      }
    }
    plan_ = cost_.PlanFor(ticket.op, ticket.num_envs);
    SetState(ticket, EnvState::kInFlight);
    ticket.resets.store(0, std::memory_order_relaxed);
    ticket.remaining.store(ticket.num_envs, std::memory_order_relaxed);
    if (!RunsInline()) Publish(ticket, 0);
  } catch (...) {
    EndCall();
    throw;
  }
}

std::uint32_t Pool::Wait(Ticket& ticket, InterruptCheck interrupted, const std::shared_ptr<void>& owner) {
  try {
    if (RunsInline()) RunInline(ticket, interrupted);
    HelpUntilDone(ticket, interrupted);
  } catch (...) {
    ticket.keepalive = owner;
    EndCall();
    throw;
  }
  const std::uint32_t resets = ticket.resets.load(std::memory_order_relaxed);
  std::vector<EnvFault> faults;
  faults.swap(ticket.faults);
  cost_.CallEnded();
  if (resets > 0 && faults.empty()) CompleteRoot(ticket);
  {
    std::lock_guard lock(mutex_);
    SetState(ticket, EnvState::kReady);
    for (const EnvFault& fault : faults) {
      const auto env = static_cast<std::uint32_t>(fault.env_index);
      states_[env] = EnvState::kFailed;
      fault_messages_[env] = fault.message;
    }
  }
  EndCall();
  if (!faults.empty()) {
    std::sort(faults.begin(), faults.end(),
              [](const EnvFault& a, const EnvFault& b) { return a.env_index < b.env_index; });
    std::string message = "env " + std::to_string(faults[0].env_index) + " (" +
                          configs_[static_cast<std::size_t>(faults[0].env_index)]->task().id +
                          ") failed: " + faults[0].message;
    if (faults.size() > 1) message += " (and " + Plural(faults.size() - 1, "more env") + " failed too)";
    throw EnvFailure(message, std::move(faults));
  }
  return resets;
}

// ---- dispatch -----------------------------------------------------------------------------------

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
  Ticket& ticket = ticket_;
  const auto start = Clock::now();
  std::uint32_t resets = 0;
  for (std::uint32_t env = chunk.first; env < chunk.first + chunk.count; ++env) {
    scratch.error.message[0] = '\0';
    switch (Visit(layout_, ticket, env, slots_[env], scratch)) {
      case Result::kOk:
        break;
      case Result::kReset:
        ++resets;
        break;
      case Result::kFailed: {
        scratch.error.message[sizeof scratch.error.message - 1] = '\0';
        std::lock_guard lock(ticket.faults_mutex);
        ticket.faults.push_back({env, scratch.error.message});
        break;
      }
    }
  }
  if (resets > 0) ticket.resets.fetch_add(resets, std::memory_order_relaxed);
  cost_.Measure(ticket.op, chunk.count, Clock::now() - start);
  // Once the last env is counted the ticket may be used again: nothing of it is touched after this.
  if (ticket.remaining.fetch_sub(chunk.count, std::memory_order_acq_rel) == chunk.count) done_.Notify();
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

// ---- the end ------------------------------------------------------------------------------------

void Pool::Close() {
  if (forked()) return;
  {
    std::unique_lock lock(mutex_);
    if (in_call_ && caller_ == std::this_thread::get_id()) {
      throw PoolError("this pool cannot be closed from within a call of it");
    }
    if (closing_) {
      call_ended_.wait(lock, [this] { return closed_; });
      return;
    }
    closing_ = true;
    call_ended_.wait(lock, [this] { return !in_call_; });
  }
  stop_.store(true, std::memory_order_release);
  for (auto& worker : workers_) {
    worker->parked.Notify();
    if (worker->thread.joinable()) worker->thread.join();
  }
  ticket_.keepalive.reset();
  DestroyEnvs();
  std::lock_guard lock(mutex_);
  closed_ = true;
  call_ended_.notify_all();
}

void Pool::DestroyEnvs() {
  for (EnvSlot& slot : slots_) {
    if (slot.env) slot.config->task().destroy(slot.env);
    slot.env = nullptr;
  }
}

}  // namespace torchrl_pool::core
