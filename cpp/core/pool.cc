#include "pool.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "cpu.h"
#include "errors.h"
#include "fork.h"
#include "perturb.h"
#include "saved_state.h"

namespace torchrl_pool::core {
namespace {

std::unique_ptr<Executor> MakeExecutor(EnvTable& envs, JobStore& jobs, const PoolOptions& options) {
  if (options.workers) return std::make_unique<WorkerExecutor>(envs, jobs, *options.workers);
  return std::make_unique<ThreadExecutor>(envs, jobs, options.threads);
}

}  // namespace

Pool::Pool(std::vector<EnvRequest> envs, const PoolOptions& options)
    : fork_generation_(ForkGeneration()),
      envs_(std::move(envs), options.layout),
      jobs_(envs_.layout()),
      executor_(MakeExecutor(envs_, jobs_, options)),
      outbox_(envs_.size(), *executor_) {}

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
  executor_->Start();
  Job& job = Begin(Op::kCreate);
  Submit(job, Await::kAtOnce, interrupted);
  Wait(job, interrupted);
  const auto lock = Lock();
  envs_.SetState(envs_.all(), EnvState::kUnset);
}

Pool::~Pool() { Close(); }

bool Pool::forked() const { return fork_generation_ != ForkGeneration(); }

void Pool::CheckNotForked() const {
  if (!forked()) return;
  throw PoolError(
      "this pool was created before the process forked; its threads exist only in the parent. Create the "
      "pool in the child, or use the 'spawn' start method");
}

WorkerExecutor* Pool::workers() {
  CheckNotForked();
  return dynamic_cast<WorkerExecutor*>(executor_.get());
}

std::unique_lock<std::mutex> Pool::Lock() const {
  CheckNotForked();
  Perturb();
  std::unique_lock lock(mutex_);
  if (closing_) throw PoolError("this pool is closed");
  return lock;
}

// ---- jobs ------------------------------------------------------------------------------------

Job& Pool::Begin(Op op) {
  CheckNotForked();
  Job& job = jobs_.Take(op);
  job.envs = envs_.all();
  return job;
}

void Pool::Select(Job& job, const std::uint8_t* mask) {
  const std::uint32_t count = envs_.size();
  job.chosen.resize(count);
  std::uint32_t chosen = 0;
  for (std::uint32_t env = 0; env < count; ++env) {  // without branches
    job.chosen[chosen] = env;
    chosen += mask[env] != 0;
  }
  job.chosen.resize(chosen);
  job.envs = job.chosen;
}

void Pool::Select(Job& job, EnvRange envs) {
  const std::uint64_t end = std::uint64_t{envs.first} + envs.count;
  if (end > envs_.size()) envs_.CheckIndex(end - 1);
  job.envs = envs_.all().subspan(envs.first, envs.count);
}

void Pool::CheckNotHung(std::span<const std::uint32_t> envs) const {
  if (const auto env = executor_->FindHung(envs)) {
    throw PoolError(
        "env " + std::to_string(*env) +
        " hangs: it can be reset once its call has returned; until then leave it out with a mask");
  }
}

[[gnu::flatten]] void Pool::Submit(Job& job, Await await, InterruptCheck interrupted) {
  try {
    if (job.op == Op::kStepAndReset && !job.out.base[layout().done]) {
      throw PoolError("a step that resets writes the column 'done'");
    }
    executor_->FreeHung();
    const auto lock = LockSettled(job.envs, interrupted);
    const bool at_once = job.at_once = await == Await::kAtOnce;
    if (job.op == Op::kReset) CheckNotHung(job.envs);
    waiting_.reserve(waiting_.size() + 1);  // or fails now
    for_later_.reserve(for_later_.size() + 1);
    envs_.Launch(job);
    if (at_once) {
      waiting_.push_back(std::this_thread::get_id());
    } else {
      for_later_.push_back(&job);
    }
    executor_->Begin(job);
  } catch (...) {
    jobs_.Drop(job);
    throw;
  }
}

[[gnu::flatten]] std::uint32_t Pool::Wait(Job& job, InterruptCheck interrupted,
                                          const std::function<void()>& meanwhile) {
  const bool at_once = job.at_once;
  if (!at_once) {
    const auto lock = Lock();
    waiting_.push_back(std::this_thread::get_id());
  }
  try {
    if (meanwhile && !job.IsInline()) meanwhile();
    executor_->WaitFor(job, interrupted);
  } catch (...) {
    GiveUp(job, at_once);
    throw;
  }
  return Finish(job);
}

[[gnu::flatten]] std::uint32_t Pool::Finish(Job& job) {
  const std::uint32_t resets = job.resets.load(std::memory_order_relaxed);
  std::exception_ptr error;
  if (job.error) error = std::move(job.error);
  std::optional<EnvFailure> failure;
  if (!job.faults.empty()) failure.emplace(envs_.FailureOf(std::move(job.faults)));
  std::shared_ptr<void> owner;  // let go of without the lock
  {
    Perturb();
    std::lock_guard lock(mutex_);
    envs_.SetState(job.envs, error ? EnvState::kUnknown : EnvState::kReady);
    if (failure) envs_.MarkFailed(failure->faults);
    if (!job.at_once) std::erase(for_later_, &job);
    owner = jobs_.Drop(job);
    Leave();
  }
  if (error) std::rethrow_exception(error);
  if (failure) throw *failure;
  return resets;
}

// Nobody waits for the job any longer. One that is abandoned goes on only with what has begun, into memory
// that it keeps alive, and is settled by the next call.
void Pool::GiveUp(Job& job, bool is_abandoned) {
  Perturb();
  std::lock_guard lock(mutex_);
  if (is_abandoned) {
    job.cancelled.store(true, std::memory_order_relaxed);
    abandoned_.push_back(&job);
  }
  Leave();
}

// Under mutex_, and last: once that is free, Close may go on and the pool may be gone.
void Pool::Leave() {
  waiting_.erase(std::find(waiting_.begin(), waiting_.end(), std::this_thread::get_id()));
  if (closing_) left_.notify_all();
}

// Waits for what interrupted calls have left behind, and for touches.
std::unique_lock<std::mutex> Pool::LockSettled(std::span<const std::uint32_t> envs,
                                               InterruptCheck interrupted) {
  while (true) {
    auto lock = Lock();
    if (!touches_.empty()) WaitForTouches(lock, envs, interrupted);
    if (abandoned_.empty()) return lock;
    Job& job = *abandoned_.back();
    job.users.fetch_add(1, std::memory_order_relaxed);
    waiting_.push_back(std::this_thread::get_id());
    lock.unlock();
    const auto leave = [&] {
      jobs_.Drop(job);
      lock.lock();
      Leave();
      lock.unlock();
    };
    try {
      executor_->WaitFor(job, interrupted);
    } catch (...) {
      leave();
      throw;
    }
    leave();
    SettleFinished();
  }
}

// The results of an abandoned job have not been seen by the caller.
void Pool::SettleFinished() {
  std::vector<std::shared_ptr<void>> owners;  // let go of without the lock
  const auto lock = Lock();
  std::erase_if(abandoned_, [&](Job* job) {
    if (!job->finished.load(std::memory_order_acquire)) return false;
    envs_.SetState(job->envs, EnvState::kUnknown);
    owners.push_back(jobs_.Drop(*job));
    return true;
  });
}

// ---- results one by one -------------------------------------------------------------------------

void Pool::PrepareAsync(const Batch& out, const Batch& root) {
  const auto lock = Lock();
  if (!async_out_.base.empty()) throw PoolError("async calls are prepared already");
  std::vector<ZeroedBytes> actions;
  for (const ActionColumn& column : layout().actions) actions.emplace_back(num_envs() * column.row_bytes);
  Batch own_root = root;
  Batch own_out = out;
  async_actions_.swap(actions);
  async_root_ = std::move(own_root);
  async_out_ = std::move(own_out);
}

void Pool::Send(Op op, std::span<const std::uint32_t> envs, const std::byte* const* actions, bool alone,
                InterruptCheck interrupted) {
  CheckNotForked();
  executor_->FreeHung();
  for (const std::uint32_t env : envs) envs_.CheckIndex(env);
  if (envs.empty()) return;
  Job& job = jobs_.Take(op);
  try {
    job.chosen.assign(envs.begin(), envs.end());
    const bool ascends = std::adjacent_find(envs.begin(), envs.end(), std::greater_equal()) == envs.end();
    if (!ascends) std::sort(job.chosen.begin(), job.chosen.end());
    if (!ascends && std::adjacent_find(job.chosen.begin(), job.chosen.end()) != job.chosen.end()) {
      throw StatusError(TRP_INVALID_ARGUMENT, "env_index: an env is named twice");
    }
    job.envs = job.chosen;
    const auto lock = LockSettled(job.envs, interrupted);
    if (async_out_.base.empty()) throw PoolError("async calls are not prepared");
    job.out = op == Op::kReset ? async_root_ : async_out_;  // a reset writes a root
    job.root = async_root_;
    job.outbox = &outbox_;
    job.at_once = false;
    if (op == Op::kReset) CheckNotHung(job.envs);
    envs_.CheckStates(op, job.envs);
    for (std::size_t i = 0; op != Op::kReset && i < async_actions_.size(); ++i) {
      const std::size_t bytes = layout().actions[i].row_bytes;
      job.actions.base[i] = async_actions_[i].data();  // rows of idle envs, which no thread reads
      ScatterRows(actions[i], envs, job.actions.RowsFrom(i, 0), bytes);
    }
    if (op != Op::kReset) envs_.CheckActions(job.actions, job.envs);
    envs_.SetState(job.envs, EnvState::kInFlight);
    outbox_.Expect(op, envs, alone);
    executor_->Begin(job);
  } catch (...) {
    jobs_.Drop(job);
    throw;
  }
}

std::optional<Outbox::Received> Pool::Receive(Op op, std::size_t least, std::size_t most,
                                              std::optional<Outbox::Clock::duration> timeout,
                                              InterruptCheck interrupted) {
  (void)Lock();
  return Checked(outbox_.Receive(op, least, most, timeout, interrupted));
}

std::optional<Outbox::Received> Pool::ReceiveAlone(Op op, std::uint32_t env,
                                                   std::optional<Outbox::Clock::duration> timeout,
                                                   InterruptCheck interrupted) {
  (void)Lock();
  envs_.CheckIndex(env);
  return Checked(outbox_.ReceiveAlone(op, env, timeout, interrupted));
}

std::optional<Outbox::Received> Pool::Checked(std::optional<Outbox::Received> received) {
  if (!received) executor_->LookAfterWork();
  if (!received || received->faults.empty()) return received;
  const std::lock_guard lock(mutex_);  // even if closed: the faults are known here only
  envs_.MarkFailed(received->faults);
  throw envs_.FailureOf(std::move(received->faults));
}

void Pool::Take(const Outbox::Received& received, const std::byte* const* out, const std::byte* const* root) {
  const Batch& stepped = received.op == Op::kReset ? async_root_ : async_out_;
  std::vector<std::size_t> begun;  // an episode
  for (std::size_t k = 0; k < received.envs.size(); ++k) {
    if (received.resets[k]) begun.push_back(k);
  }
  for (std::size_t i = 0; i < layout().outputs.size(); ++i) {
    const std::size_t bytes = layout().outputs[i].row_bytes;
    if (out[i]) GatherRows(stepped.RowsFrom(i, 0), received.envs, const_cast<std::byte*>(out[i]), bytes);
    if (!root[i]) continue;
    auto* to = const_cast<std::byte*>(root[i]);
    GatherRows(stepped.RowsFrom(i, 0), received.envs, to, bytes);
    for (const std::size_t k : begun) {
      std::memcpy(to + k * bytes, async_root_.Row(i, received.envs[k]), bytes);
    }
  }
  const auto lock = Lock();
  envs_.SetState(received.envs, EnvState::kReady);
}

// ---- the end ------------------------------------------------------------------------------------

void Pool::Close(InterruptCheck interrupted) {
  if (forked()) return;
  {
    std::unique_lock lock(mutex_);
    if (std::find(waiting_.begin(), waiting_.end(), std::this_thread::get_id()) != waiting_.end()) {
      throw PoolError("this pool cannot be closed from within a call of it");
    }
    // Waiting for other threads' calls: an interrupt leaves everything as it is.
    const auto wait_until = [&](const auto& condition) {
      while (!left_.wait_for(lock, kInterruptPeriod, condition)) {
        lock.unlock();
        const bool stop = interrupted();  // may take a lock of its own
        lock.lock();
        if (stop && !condition()) return false;
      }
      return true;
    };
    while (closing_) {  // by another thread, which may give up
      if (!wait_until([this] { return closed_ || !closing_; })) throw Interrupted();
      if (closed_) return;
    }
    closing_ = true;
    if (!wait_until([this] { return waiting_.empty(); })) {
      closing_ = false;
      left_.notify_all();
      throw Interrupted();
    }
  }
  outbox_.Close();
  executor_->Stop();
  const bool in_time = executor_->WaitForThreads(interrupted);
  FreeAll();
  {
    Perturb();
    std::lock_guard lock(mutex_);
    closed_ = true;
    left_.notify_all();
  }
  if (!in_time) throw Interrupted();
}

// Frees what no thread uses any more, after Stop. Whether that is everything. One thread at a time.
bool Pool::FreeAll() {
  if (!executor_->Join()) return false;
  for (const std::uint32_t env : envs_.all()) {
    if (!executor_->FindHung(std::span(&env, 1))) envs_.Destroy(env);
  }
  if (executor_->FindHung(envs_.all())) return false;
  for (const auto* jobs : {&for_later_, &abandoned_}) {
    for (Job* job : *jobs) job->owner.reset();
  }
  return true;
}

namespace {

// Pools that are closed, and that threads which hang may still use. Whoever retires one takes them all, tries
// to free each, and puts the rest back.
class Remains {
 public:
  using Pools = std::vector<std::unique_ptr<Pool>>;

  static Pools Take() {
    Remains& remains = The();
    remains.Lock();
    Pools pools = std::exchange(remains.pools_, {});
    remains.lock_.Unlock();
    return pools;
  }
  static void Put(Pools pools) {
    Remains& remains = The();
    remains.Lock();
    for (auto& pool : pools) remains.pools_.push_back(std::move(pool));
    remains.lock_.Unlock();
  }

 private:
  // Never freed: threads that hang may outlive everything.
  static Remains& The() {
    static auto& remains = *new Remains;
    return remains;
  }
  void Lock() {
    while (!lock_.TryLock()) std::this_thread::yield();
    // What a parent has left, perhaps in the midst of a change, is not the child's to free.
    if (std::exchange(fork_generation_, ForkGeneration()) != ForkGeneration()) new (&pools_) Pools;
  }

  ForkAwareLock lock_;
  unsigned fork_generation_ = ForkGeneration();
  Pools pools_;
};

}  // namespace

bool Pool::Retire(std::unique_ptr<Pool> pool, InterruptCheck interrupted) {
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
  auto remains = Remains::Take();
  std::erase_if(remains, [](const auto& remaining) { return remaining->FreeAll(); });
  const bool freed = pool->FreeAll();
  if (!freed) remains.push_back(std::move(pool));
  Remains::Put(std::move(remains));
  if (!in_time) throw Interrupted();
  return freed;
}

}  // namespace torchrl_pool::core
