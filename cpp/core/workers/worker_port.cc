#include "workers/worker_port.h"

#include <algorithm>
#include <utility>

#include "cpu.h"
#include "errors.h"
#include "perturb.h"

namespace torchrl_pool::core {

WorkerPort::WorkerPort(std::shared_ptr<Arena> arena, int worker)
    : arena_(std::move(arena)),
      worker_(worker),
      mailbox_(arena_->mailbox(worker)),
      next_(mailbox_.begin.load(std::memory_order_acquire)) {}

std::optional<Request> WorkerPort::Next() {
  const std::uint64_t waiting = mailbox_.posted.load(std::memory_order_acquire) - next_;
  if (waiting == 0) return std::nullopt;
  const auto request = Request::Unpack(arena_->request(worker_, next_++).load(std::memory_order_relaxed));
  const bool has_sense = waiting <= arena_->num_requests(worker_) && request.first < num_envs() &&
                         request.count > 0 && request.count <= num_envs() - request.first;
  if (!has_sense) throw PoolError("the memory that this process shares with its pool was overwritten");
  if (!std::exchange(has_begun_, true)) {
    finished_ = begun_ = mailbox_.finished.load(std::memory_order_acquire);
  }
  begun_ += request.count;
  mailbox_.begun.store(begun_, std::memory_order_release);
  return request;
}

bool WorkerPort::TakeMessage() {
  return mailbox_.has_message.load(std::memory_order_relaxed) != 0 &&
         mailbox_.has_message.exchange(0, std::memory_order_acquire) != 0;
}

bool WorkerPort::HasWork() const {
  return mailbox_.posted.load(std::memory_order_seq_cst) != next_ ||
         mailbox_.has_message.load(std::memory_order_seq_cst) != 0;
}

void WorkerPort::Wait(std::chrono::nanoseconds timeout) {
  if (has_begun_) Publish();
  for (Spin spin(kSpinForPython); spin.Pause();) {
    if (HasWork()) return;
  }
  const std::uint32_t key = mailbox_.doorbell.PrepareWait();
  Perturb();
  if (HasWork()) return mailbox_.doorbell.CancelWait();
  mailbox_.doorbell.Wait(key, timeout);
}

std::span<const std::uint32_t> WorkerPort::SeedOf(std::uint32_t env) const {
  const EnvCell& cell = arena_->cell(env);
  const std::uint32_t num_words = cell.num_words;
  if (num_words > EnvCell::kMaxWords) {
    throw StatusError(TRP_INVALID_ARGUMENT, "a seed of an env in a worker must be below 2**256");
  }
  return {cell.words, num_words};
}

void WorkerPort::Stepped(std::uint32_t env, double reward, bool terminated, bool truncated) {
  EnvCell& cell = arena_->cell(env);
  cell.reward = reward;
  cell.terminated = terminated;
  cell.truncated = truncated;
  cell.step = EnvCell::kOk;
}

void WorkerPort::WasReset(std::uint32_t env, bool terminated, bool truncated) {
  EnvCell& cell = arena_->cell(env);
  cell.root_terminated = terminated;
  cell.root_truncated = truncated;
  cell.root = EnvCell::kOk;
}

void WorkerPort::Failed(std::uint32_t env, std::string_view message) {
  EnvCell& cell = arena_->cell(env);
  arena_->SetMessage(env, message);
  if (cell.step == EnvCell::kNone) cell.step = EnvCell::kFailed;
  cell.root = EnvCell::kFailed;
}

void WorkerPort::CountSteps(std::uint32_t count, std::chrono::nanoseconds time) {
  mailbox_.steps.fetch_add(count, std::memory_order_relaxed);
  mailbox_.step_ns.fetch_add(static_cast<std::uint64_t>(time.count()), std::memory_order_relaxed);
}

void WorkerPort::Finish() {
  Perturb();
  mailbox_.finished.store(++finished_, std::memory_order_seq_cst);
  Doorbell& bell = arena_->bell();
  if (bell.HasSleepers() && finished_ >= mailbox_.notify_at.load(std::memory_order_seq_cst)) bell.Ring();
}

// Writes the counts again, in case the env has overwritten them since.
void WorkerPort::Publish() {
  if (mailbox_.finished.load(std::memory_order_relaxed) == finished_ &&
      mailbox_.begun.load(std::memory_order_relaxed) == begun_) {
    return;
  }
  mailbox_.begun.store(begun_, std::memory_order_release);
  mailbox_.finished.store(finished_, std::memory_order_seq_cst);
  arena_->bell().Ring();
}

}  // namespace torchrl_pool::core
