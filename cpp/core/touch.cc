// States and pictures: an env in the hands of one thread, without a job.
#include <algorithm>
#include <string>
#include <utility>

#include "cpu.h"
#include "errors.h"
#include "pool.h"
#include "saved_state.h"

namespace torchrl_pool::core {

Pool::Touch::Touch(Pool& pool, std::vector<std::uint32_t> envs, By by, InterruptCheck interrupted)
    : pool_(pool), envs_(std::move(envs)), by_(by) {
  pool.CheckNotForked();
  pool.executor_->FreeHung();
  pool.SettleFinished();
  auto lock = pool.Lock();
  for (const std::uint32_t env : envs_) pool.envs_.CheckIndex(env);
  pool.WaitForTouches(lock, envs_, interrupted);
  for (const std::uint32_t& env : envs_) {
    if (pool.envs_.state(env) != EnvState::kInFlight) {
      pool.CheckNotHung(std::span(&env, 1));
      continue;
    }
    if (pool.abandoned_.empty()) {
      throw PoolError("env " + std::to_string(env) + " is in flight: receive it first");
    }
    lock.unlock();
    pool.executor_->LookAfterWork();  // an abandoned job has no waiting thread that would
    throw PoolError("envs are still at work after an interrupted call");
  }
  if (by_ == By::kPool) pool.waiting_.reserve(pool.waiting_.size() + 1);
  pool.touches_.push_back(this);
  if (by_ == By::kPool) pool.waiting_.push_back(thread_);
}

Pool::Touch::~Touch() {
  if (pool_.forked()) return;
  std::lock_guard lock(pool_.mutex_);
  std::erase(pool_.touches_, this);
  pool_.left_.notify_all();
  if (by_ == By::kPool) pool_.Leave();
}

const Pool::Touch* Pool::FindTouch(std::span<const std::uint32_t> envs) const {
  for (const Touch* touch : touches_) {
    const auto& touched = touch->envs_;
    if (std::find_first_of(touched.begin(), touched.end(), envs.begin(), envs.end()) != touched.end()) {
      return touch;
    }
  }
  return nullptr;
}

void Pool::WaitForTouches(std::unique_lock<std::mutex>& lock, std::span<const std::uint32_t> envs,
                          InterruptCheck interrupted) {
  while (const Touch* touch = FindTouch(envs)) {
    if (touch->thread_ == std::this_thread::get_id()) {
      throw PoolError("an env cannot be stepped, reset or read by its pool while it is in a call");
    }
    const auto waited = left_.wait_for(lock, kInterruptPeriod);
    lock.unlock();
    if (waited == std::cv_status::timeout && interrupted()) throw Interrupted();  // may take a lock
    lock = Lock();
  }
}

std::vector<std::uint8_t> Pool::Save(std::uint32_t env_index, InterruptCheck interrupted) {
  const Touch touch(*this, {env_index}, Touch::By::kPool, interrupted);
  const EnvSlot& slot = envs_.slot(env_index);
  if (slot.task->save && envs_.state(env_index) != EnvState::kReady) {
    throw PoolError("env " + std::to_string(env_index) + " has no state to save: reset it first");
  }
  return SaveState(layout(), slot, env_index);
}

void Pool::Load(std::uint32_t env_index, std::span<const std::uint8_t> bytes, InterruptCheck interrupted) {
  const Touch touch(*this, {env_index}, Touch::By::kPool, interrupted);
  LoadState(layout(), envs_.slot(env_index), env_index, envs_.state(env_index) == EnvState::kReady, bytes);
  const std::lock_guard lock(mutex_);
  envs_.SetState(std::span(&env_index, 1), EnvState::kReady);
}

std::pair<std::int64_t, std::int64_t> Pool::RenderSize(std::uint32_t env_index, InterruptCheck interrupted) {
  const Touch touch(*this, {env_index}, Touch::By::kPool, interrupted);
  return envs_.slot(env_index).config->RenderSize();
}

void Pool::Render(std::uint32_t env_index, std::uint8_t* rgb, InterruptCheck interrupted) {
  const Touch touch(*this, {env_index}, Touch::By::kPool, interrupted);
  const EnvSlot& slot = envs_.slot(env_index);
  if (!slot.task->render) {
    throw StatusError(TRP_UNSUPPORTED, std::string("task '") + slot.task->id + "' cannot be rendered");
  }
  if (envs_.state(env_index) != EnvState::kReady) {
    throw PoolError("env " + std::to_string(env_index) + " has nothing to show: reset it first");
  }
  trp_error error{};
  ThrowUnlessOk(slot.task->render(slot.env, rgb, &error), slot, env_index, error);
}

}  // namespace torchrl_pool::core
