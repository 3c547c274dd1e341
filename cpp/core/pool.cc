#include "pool.h"

#include <algorithm>
#include <string>

#include "cpu.h"
#include "errors.h"
#include "fork.h"
#include "perturb.h"

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
      outbox_(envs_.size(), [this](EventCount& changed, const Outbox::Condition& is_over,
                                   Executor::Clock::time_point until, InterruptCheck interrupted) {
        return executor_->WaitUntil(changed, is_over, until, interrupted);
      }) {}

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
  Submit(job, Delivery::kAwaited, interrupted);
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

void Pool::Select(Job& job, std::span<const std::uint32_t> envs) {
  for (const std::uint32_t env : envs) envs_.CheckIndex(env);
  job.order.assign(envs.begin(), envs.end());
  job.chosen = job.order;
  if (std::adjacent_find(envs.begin(), envs.end(), std::greater_equal()) != envs.end()) {
    std::sort(job.chosen.begin(), job.chosen.end());
    if (std::adjacent_find(job.chosen.begin(), job.chosen.end()) != job.chosen.end()) {
      throw StatusError(TRP_INVALID_ARGUMENT, "env_index: an env is named twice");
    }
  }
  job.envs = job.chosen;
}

void Pool::CheckNotHung(std::span<const std::uint32_t> envs) const {
  if (const auto env = executor_->FindHung(envs)) {
    throw PoolError(
        "env " + std::to_string(*env) +
        " hangs: it can be reset once its call has returned; until then leave it out with a mask");
  }
}

namespace {

// Rows that the job reads after its submission move to memory of its own: the caller may write to its own
// then.
void CopyInputs(Job& job) {
  for (const RecordedColumn& column : job.recorded) {
    ForEachRun(job.envs, [&](std::uint32_t first, std::uint32_t count) {
      CopyRows(column.from.From(first), column.to.From(first), column.row_bytes, count);
    });
  }
  job.recorded.clear();
  const std::size_t first = std::size_t{job.envs.front()} * job.num_steps;
  const std::size_t rows = (job.envs.back() + std::size_t{1}) * job.num_steps - first;
  const auto size_of = [&](std::size_t column) {
    const std::size_t bytes = job.actions.base[column] ? rows * job.actions.row_bytes[column] : 0;
    return (bytes + kCacheLine - 1) / kCacheLine * kCacheLine;
  };
  std::size_t size = 0;
  for (std::size_t i = 0; i < job.actions.base.size(); ++i) size += size_of(i);
  if (job.copies_size < size) {
    job.copies_size = 0;
    job.copies = std::make_unique_for_overwrite<std::byte[]>(size);
    job.copies_size = size;
  }
  std::byte* memory = job.copies.get();
  for (std::size_t i = 0; i < job.actions.base.size(); ++i) {
    if (!job.actions.base[i]) continue;
    const std::size_t bytes = job.actions.row_bytes[i];
    const Rows from = job.actions.RowsFrom(i, 0), to = {memory - first * bytes, bytes};
    if (!job.order.empty()) {
      ScatterRows(from.base, job.order, to, bytes);
    } else {
      ForEachRun(job.envs, [&](std::uint32_t env, std::uint32_t count) {
        const std::size_t row = std::size_t{env} * job.num_steps;
        CopyRows(from.From(row), to.From(row), bytes, std::size_t{count} * job.num_steps);
      });
    }
    memory += size_of(i);
    job.actions.base[i] = to.base;
    job.actions.stride[i] = bytes;
  }
}

}  // namespace

[[gnu::flatten]] void Pool::Submit(Job& job, Delivery delivery, InterruptCheck interrupted) {
  try {
    if (delivery == Delivery::kOneByOne && job.envs.empty()) {
      job.cargo.reset();
      return (void)jobs_.Drop(job);
    }
    job.delivery = delivery;
    if (delivery != Delivery::kAwaited && !job.envs.empty()) CopyInputs(job);
    executor_->FreeHung();
    const auto lock = LockFree(job.envs, interrupted);
    if (delivery == Delivery::kOneByOne) {
      if (async_out_.base.empty()) throw PoolError("async calls are not prepared");
      job.out = job.op == Op::kReset ? async_root_ : async_out_;  // a reset writes a root
      job.root = async_root_;
      job.outbox = &outbox_;
      if (job.is_single) outbox_.MakeRoomAlone(job.envs);
    }
    if (job.op == Op::kStepAndReset && !job.out.base[layout().done]) {
      throw PoolError("a step that resets writes the column 'done'");
    }
    job.ForEachOp([&](Op op, std::span<const std::uint32_t> envs) {
      if (op == Op::kReset || IsStateOp(op)) CheckNotHung(envs);
    });
    uses_.reserve(uses_.size() + 1);  // or fails now
    envs_.Launch(job);
    if (delivery == Delivery::kOneByOne) {
      outbox_.Expect(job.op, job.order, job.is_single, std::exchange(job.cargo, nullptr));
    } else {
      const bool is_awaited = delivery == Delivery::kAwaited;
      uses_.push_back(
          {Use::Kind::kJob, job.envs, &job, is_awaited ? std::this_thread::get_id() : std::thread::id()});
    }
    executor_->Begin(job);
  } catch (...) {
    job.cargo.reset();
    jobs_.Drop(job);
    throw;
  }
}

[[gnu::flatten]] std::uint32_t Pool::Wait(Job& job, InterruptCheck interrupted,
                                          const std::function<void()>& meanwhile) {
  if (job.delivery == Delivery::kLater) {
    const auto lock = Lock();
    FindUse(Use::Kind::kJob, job)->thread = std::this_thread::get_id();
  }
  try {
    if (meanwhile && !job.IsInline()) meanwhile();
    executor_->WaitFor(job, interrupted);
  } catch (...) {
    Perturb();
    const std::lock_guard lock(mutex_);
    LeaveBehind(job, job.delivery == Delivery::kAwaited);
    throw;
  }
  return Finish(job);
}

void Pool::Abandon(Job& job) {
  if (forked()) return;
  Perturb();
  const std::lock_guard lock(mutex_);
  if (!closed_) LeaveBehind(job, true);
}

// No thread waits for the job any longer. One that is abandoned goes on only with what has begun, into memory
// that it keeps alive.
void Pool::LeaveBehind(Job& job, bool is_abandoned) {
  Use& use = *FindUse(Use::Kind::kJob, job);
  use.thread = {};
  if (is_abandoned) {
    job.cancelled.store(true, std::memory_order_relaxed);
    use.kind = Use::Kind::kAbandonedJob;
  }
  if (closing_) changed_.notify_all();
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
    envs_.Land(job, !error);
    if (failure) envs_.MarkFailed(failure->faults);
    EndUse(FindUse(Use::Kind::kJob, job));
    owner = jobs_.Drop(job);
  }
  if (error) std::rethrow_exception(error);
  if (failure) throw *failure;
  return resets;
}

// ---- who uses which envs --------------------------------------------------------------------------

std::vector<Pool::Use>::iterator Pool::FindUse(Use::Kind kind, const Job& job) {
  return std::find_if(uses_.begin(), uses_.end(),
                      [&](const Use& use) { return use.kind == kind && use.job == &job; });
}

// Under mutex_, and last: once that is free, Close may go on and the pool may be gone.
void Pool::EndUse(std::vector<Use>::iterator use) {
  const bool is_awaited = closing_ || use->is_brief();
  *use = uses_.back();
  uses_.pop_back();
  if (is_awaited) changed_.notify_all();
}

std::unique_lock<std::mutex> Pool::LockFree(std::span<const std::uint32_t> envs, InterruptCheck interrupted) {
  const auto is_in_the_way = [&](const Use& use) {
    if (!use.is_brief()) return use.kind == Use::Kind::kAbandonedJob;
    return std::find_first_of(use.envs.begin(), use.envs.end(), envs.begin(), envs.end()) != use.envs.end();
  };
  while (true) {
    auto lock = Lock();
    const auto use = std::find_if(uses_.begin(), uses_.end(), is_in_the_way);
    if (use == uses_.end()) return lock;
    if (use->kind == Use::Kind::kAbandonedJob) {
      SettleAbandoned(std::move(lock), *use->job, interrupted);
      continue;
    }
    if (use->thread == std::this_thread::get_id()) {
      throw PoolError("an env cannot be stepped, reset or read by its pool while it is in a call");
    }
    const auto waited = changed_.wait_for(lock, kInterruptPeriod);
    lock.unlock();
    if (waited == std::cv_status::timeout && interrupted()) throw Interrupted();  // may take a lock
  }
}

// The results of an abandoned job have not been seen by the caller.
void Pool::SettleAbandoned(std::unique_lock<std::mutex> lock, Job& job, InterruptCheck interrupted) {
  const auto me = std::this_thread::get_id();
  uses_.push_back({Use::Kind::kSettling, {}, &job, me});
  job.users.fetch_add(1, std::memory_order_relaxed);
  lock.unlock();
  std::exception_ptr error;
  try {
    executor_->WaitFor(job, interrupted);
  } catch (...) {
    error = std::current_exception();
  }
  std::shared_ptr<void> owners[2];  // let go of without the lock
  {
    Perturb();
    const std::lock_guard relocked(mutex_);
    const auto use = FindUse(Use::Kind::kAbandonedJob, job);
    if (!error && use != uses_.end()) {  // else another thread has settled it
      envs_.Land(job, false);
      if (IsStateOp(job.op)) envs_.MarkFailed(job.faults);  // a thread hangs in it
      EndUse(use);
      owners[0] = jobs_.Drop(job);
    }
    EndUse(std::find_if(uses_.begin(), uses_.end(), [&](const Use& one) {
      return one.kind == Use::Kind::kSettling && one.job == &job && one.thread == me;
    }));
    owners[1] = jobs_.Drop(job);
  }
  if (error) std::rethrow_exception(error);
}

// ---- the end ------------------------------------------------------------------------------------

void Pool::Close(InterruptCheck interrupted) {
  if (forked()) return;
  CheckNotWithin();
  {
    std::unique_lock lock(mutex_);
    // Waiting for other threads: an interrupt leaves everything as it is.
    const auto wait_until = [&](const auto& condition) {
      while (!changed_.wait_for(lock, kInterruptPeriod, condition)) {
        lock.unlock();
        const bool stop = interrupted();  // may take a lock of its own
        lock.lock();
        if (stop) return false;
      }
      return true;
    };
    while (closing_) {  // by another thread, which may give up
      if (!wait_until([this] { return closed_ || !closing_; })) throw Interrupted();
      if (closed_) return;
    }
    closing_ = true;
    const auto is_waiting = [](const Use& use) { return use.thread != std::thread::id(); };
    if (!wait_until([&] { return std::none_of(uses_.begin(), uses_.end(), is_waiting); })) {
      closing_ = false;
      changed_.notify_all();
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
    changed_.notify_all();
  }
  if (!in_time) throw Interrupted();
}

bool Pool::is_closed() const {
  if (forked()) return true;
  const std::lock_guard lock(mutex_);
  return closed_;
}

void Pool::CheckNotWithin() const {
  if (forked()) return;
  const auto me = std::this_thread::get_id();
  const auto is_within = [&] {
    const std::lock_guard lock(mutex_);
    return std::any_of(uses_.begin(), uses_.end(), [&](const Use& use) { return use.thread == me; });
  };
  if (executor_->IsIn(me) || is_within()) {
    throw PoolError("a pool cannot be stepped, reset, seeded, read or closed from within a call of it");
  }
}

// Frees what no thread uses any more, after Stop. Whether that is everything. One thread at a time.
bool Pool::FreeAll() {
  if (!executor_->Join()) return false;
  for (const std::uint32_t env : envs_.all()) {
    if (!executor_->FindHung(std::span(&env, 1))) envs_.Destroy(env);
  }
  if (executor_->FindHung(envs_.all())) return false;
  std::vector<std::shared_ptr<void>> owners;  // let go of without the lock
  const std::lock_guard lock(mutex_);
  for (const Use& use : uses_) {
    if (use.job) owners.push_back(std::move(use.job->owner));
  }
  return true;
}

bool Pool::Retire(std::unique_ptr<Pool> pool, InterruptCheck interrupted) {
  if (!pool) return true;
  bool in_time = true;
  try {
    pool->Close(interrupted);
  } catch (const Interrupted&) {
    in_time = false;
  } catch (...) {  // there is no memory to close it with: it is left behind
    (void)pool.release();
    throw;
  }
  const bool freed = !pool->forked() && pool->FreeAll();
  if (!freed) (void)pool.release();
  if (!in_time) throw Interrupted();
  return freed;
}

}  // namespace torchrl_pool::core
