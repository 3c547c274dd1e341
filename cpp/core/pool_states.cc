// The pool's calls for states and pictures, and exclusive access to envs.
#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "errors.h"
#include "pool.h"

namespace torchrl_pool::core {

std::shared_ptr<StateOps> Pool::RunStateOps(Op op, std::span<const std::uint32_t> envs,
                                            std::shared_ptr<StateOps> ops, InterruptCheck interrupted) {
  Job& job = Begin(op);
  try {
    Select(job, envs);
    ops->is_done.resize(envs.size());
    ops->refusals.resize(envs.size());
    ops->before.reserve(envs.size());
    job.state_ops = ops.get();
    job.owner = ops;
  } catch (...) {
    Drop(job);
    throw;
  }
  Submit(job, Delivery::kAwaited, interrupted);
  Wait(job, interrupted);
  for (std::size_t i = 0; i < envs.size(); ++i) {
    if (!ops->refusals[i]) continue;
    try {
      std::rethrow_exception(ops->refusals[i]);
    } catch (const StatusError& error) {  // the env's own, or the end of its worker process
      if (error.status != TRP_RUNTIME_ERROR) throw;
      throw EnvFailure(error.what(), {{envs[i], error.what(), EnvFault::kInStateOp}});
    }
  }
  return ops;
}

std::vector<std::vector<std::uint8_t>> Pool::Save(std::span<const std::uint32_t> envs,
                                                  InterruptCheck interrupted) {
  auto ops = std::make_shared<StateOps>();
  ops->states.resize(envs.size());
  return std::move(RunStateOps(Op::kSave, envs, std::move(ops), interrupted)->states);
}

void Pool::Load(std::span<const std::uint32_t> envs, std::vector<std::vector<std::uint8_t>> states,
                InterruptCheck interrupted) {
  auto ops = std::make_shared<StateOps>();
  ops->states = std::move(states);
  RunStateOps(Op::kLoad, envs, std::move(ops), interrupted);
}

void Pool::Render(std::span<const std::uint32_t> envs, std::vector<std::uint8_t*> pictures,
                  std::shared_ptr<void> owner, InterruptCheck interrupted) {
  auto ops = std::make_shared<StateOps>();
  ops->pictures = std::move(pictures);
  ops->owner = std::move(owner);
  RunStateOps(Op::kRender, envs, std::move(ops), interrupted);
}

std::pair<std::int64_t, std::int64_t> Pool::RenderSize(std::uint32_t env_index) const {
  (void)Lock();
  envs_.CheckIndex(env_index);
  return envs_.config(env_index).RenderSize();
}

Pool::ExclusiveAccess::ExclusiveAccess(Pool& pool, std::vector<std::uint32_t> envs,
                                       InterruptCheck interrupted)
    : pool_(pool), envs_(std::move(envs)) {
  pool.CheckNotForked();
  envs_.reserve(1);  // its address is this access's identity, where there are no envs too
  std::sort(envs_.begin(), envs_.end());
  for (const std::uint32_t env : envs_) pool.envs_.CheckIndex(env);
  pool.executor_->FreeHung();
  const auto lock = pool.LockFree(envs_, interrupted);
  for (const std::uint32_t env : envs_) {
    if (pool.envs_.state(env) == EnvState::kInFlight) {
      throw PoolError("env " + std::to_string(env) + " is in flight: receive it first");
    }
  }
  pool.CheckNotHung(envs_);
  pool.uses_.push_back({Use::Kind::kAccess, envs_, nullptr, std::this_thread::get_id()});
}

Pool::ExclusiveAccess::~ExclusiveAccess() {
  if (pool_.forked()) return;
  const std::lock_guard lock(pool_.mutex_);
  pool_.EndUse(std::find_if(pool_.uses_.begin(), pool_.uses_.end(), [&](const Use& use) {
    return use.kind == Use::Kind::kAccess && use.envs.data() == envs_.data();
  }));
}

}  // namespace torchrl_pool::core
