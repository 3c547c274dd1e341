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
  if (mailbox_.posted.load(std::memory_order_acquire) == next_) return std::nullopt;
  if (std::exchange(is_idle_, false)) {
    rhythm_.Begins(Rhythm::Clock::now());
    idle_.Worked();
  }
  return Request::Unpack(arena_->request(worker_, next_++).load(std::memory_order_relaxed));
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
  if (!std::exchange(is_idle_, true)) rhythm_.Ended(Rhythm::Clock::now());
  while (idle_.Pause()) {
    if (HasWork()) return;
  }
  const std::uint32_t key = mailbox_.doorbell.PrepareWait();
  Perturb();
  if (HasWork()) return mailbox_.doorbell.CancelWait();
  mailbox_.doorbell.Wait(key, std::min<std::chrono::nanoseconds>(timeout, idle_.SleepTime()));
}

std::span<const std::uint32_t> WorkerPort::SeedOf(std::uint32_t env) const {
  const EnvCell& cell = arena_->cell(env);
  if (cell.num_words == EnvCell::kTooManyWords) {
    throw StatusError(TRP_INVALID_ARGUMENT, "a seed of an env in a worker must be below 2**256");
  }
  return {cell.words, cell.num_words};
}

void WorkerPort::Stepped(std::uint32_t env, double reward, bool terminated, bool truncated) {
  EnvCell& cell = arena_->cell(env);
  cell.reward = reward;
  cell.terminated = terminated;
  cell.truncated = truncated;
  cell.step = EnvCell::kOk;
}

void WorkerPort::Failed(std::uint32_t env, std::string_view message) {
  EnvCell& cell = arena_->cell(env);
  arena_->SetMessage(env, message);
  if (cell.step == EnvCell::kNone) cell.step = EnvCell::kFailed;
  cell.root = EnvCell::kFailed;
}

void WorkerPort::Finish() {
  Perturb();
  const std::uint64_t finished = mailbox_.finished.load(std::memory_order_relaxed) + 1;
  mailbox_.finished.store(finished, std::memory_order_seq_cst);
  Doorbell& bell = arena_->bell();
  if (bell.HasSleepers() && finished >= mailbox_.notify_at.load(std::memory_order_seq_cst)) bell.Ring();
}

}  // namespace torchrl_pool::core
