#include "outbox.h"

#include <algorithm>
#include <new>
#include <string>
#include <thread>
#include <utility>

#include "cpu.h"
#include "perturb.h"

namespace torchrl_pool::core {
namespace {

const char* NameOf(Op op) {
  switch (op) {
    case Op::kStep:
      return "step";
    case Op::kStepAndReset:
      return "step_and_maybe_reset";
    default:
      return "reset";
  }
}

// While it lives, its number is on the list.
class Awaited {
 public:
  Awaited(std::vector<std::size_t>& list, std::size_t count) : list_(list), count_(count) {
    list_.push_back(count);
  }
  ~Awaited() { list_.erase(std::find(list_.begin(), list_.end(), count_)); }
  Awaited(const Awaited&) = delete;

 private:
  std::vector<std::size_t>& list_;
  const std::size_t count_;
};

}  // namespace

// Without the lock while it lives.
class Outbox::Unlocked {
 public:
  explicit Unlocked(std::unique_lock<std::mutex>& lock) : lock_(lock) { lock_.unlock(); }
  ~Unlocked() { lock_.lock(); }
  Unlocked(const Unlocked&) = delete;

 private:
  std::unique_lock<std::mutex>& lock_;
};

Outbox::Outbox(std::uint32_t num_envs, WaitUntil wait_until)
    : wait_until_(std::move(wait_until)), sent_(num_envs) {
  for (Queue& queue : queues_) queue.ready.reserve(num_envs);
}

void Outbox::Close() {
  {
    Perturb();
    std::lock_guard lock(mutex_);
    closed_ = true;
  }
  delivered_.Notify();
}

Outbox::Queue& Outbox::QueueOf(std::uint32_t env, Op op) {
  return sent_[env].is_alone ? alone_.at(env) : queues_[static_cast<std::size_t>(op)];
}

void Outbox::MakeRoomAlone(std::span<const std::uint32_t> envs) {
  const std::lock_guard lock(mutex_);
  for (const std::uint32_t env : envs) alone_[env].ready.reserve(1);
}

void Outbox::Expect(Op op, std::span<const std::uint32_t> envs, bool alone,
                    const std::shared_ptr<void>& cargo) {
  Perturb();
  std::lock_guard lock(mutex_);
  for (std::uint32_t i = 0; i < envs.size(); ++i) {
    sent_[envs[i]] = {alone, op, Result::kOk, {cargo, i}};
    ++QueueOf(envs[i], op).outstanding;
  }
}

void Outbox::Deliver(Op op, std::span<const std::uint32_t> envs, std::span<const Result> results,
                     std::vector<EnvFault>& faults) {
  bool wake = false;
  {
    Perturb();
    std::lock_guard lock(mutex_);
    const auto faults_of = [&](const EnvFault& fault) -> std::vector<EnvFault>& {
      return QueueOf(static_cast<std::uint32_t>(fault.env_index), op).faults;
    };
    for (const EnvFault& fault : faults) faults_of(fault).reserve(faults_of(fault).size() + faults.size());
    for (EnvFault& fault : faults) faults_of(fault).push_back(std::move(fault));
    for (std::size_t i = 0; i < envs.size(); ++i) {
      Queue& queue = QueueOf(envs[i], op);
      sent_[envs[i]].result = results[i];
      if (results[i] != Result::kFailed) queue.ready.push_back(envs[i]);
      wake = wake || queue.CanWake();
    }
  }
  faults.clear();
  if (wake) delivered_.Notify();
}

void Outbox::DeliverLost(Op op, std::span<const std::uint32_t> envs) noexcept {
  for (const std::uint32_t env : envs) {
    while (true) {
      try {
        const Result failed[] = {Result::kFailed};
        std::vector<EnvFault> faults = {{env, "there was no memory left", EnvFault::kInReset}};
        Deliver(op, std::span(&env, 1), failed, faults);
        break;
      } catch (const std::bad_alloc&) {
        std::this_thread::sleep_for(kInterruptPeriod);
      }
    }
  }
}

void Outbox::PutBack(const Received& received) {
  if (received.envs.empty()) return;
  {
    Perturb();
    std::lock_guard lock(mutex_);
    Queue& queue = QueueOf(received.envs.at(0), received.op);
    for (std::size_t k = 0; k < received.envs.size(); ++k) sent_[received.envs[k]].cargo = received.cargo[k];
    queue.ready.insert(queue.ready.begin(), received.envs.begin(), received.envs.end());
    queue.outstanding += received.envs.size();
  }
  delivered_.Notify();
}

// Asks for all memory first: where there is none, nothing has been taken.
Outbox::Received Outbox::Take(Queue& queue, Op op, std::size_t count) {
  Received received;
  received.op = op;
  if (!queue.faults.empty()) {
    received.cargo.reserve(queue.faults.size());
    received.faults.swap(queue.faults);
    for (const EnvFault& fault : received.faults) TakeCargo(fault.env_index, received);
    queue.outstanding -= received.faults.size();
  } else {
    count = std::min(count, queue.ready.size());
    const auto end = queue.ready.begin() + static_cast<std::ptrdiff_t>(count);
    received.resets.reserve(count);
    received.cargo.reserve(count);
    received.envs.assign(queue.ready.begin(), end);
    std::sort(received.envs.begin(), received.envs.end());
    queue.ready.erase(queue.ready.begin(), end);
    queue.outstanding -= count;
    for (const std::uint32_t env : received.envs) {
      received.resets.push_back(sent_[env].result == Result::kReset);
      TakeCargo(env, received);
    }
  }
  if (queue.CanWake()) delivered_.Notify();  // who waited for more has no more to wait for
  return received;
}

// It leaves with what is received, so that it is let go of where no lock is held.
void Outbox::TakeCargo(std::int64_t env, Received& received) {
  received.cargo.push_back(std::move(sent_[static_cast<std::size_t>(env)].cargo));
}

template <class Check>
std::optional<Outbox::Received> Outbox::ReceiveFrom(Queue& queue, Op op, std::size_t least, std::size_t most,
                                                    std::optional<Clock::duration> timeout,
                                                    InterruptCheck interrupted, const Check& check,
                                                    std::unique_lock<std::mutex> lock) {
  const auto until = timeout ? Clock::now() + *timeout : Clock::time_point::max();
  // While this thread waits without the lock, others may receive what it has seen.
  const auto wait_for = [&](std::size_t count) {
    const auto is_over = [&] {
      const std::lock_guard relocked(mutex_);
      return closed_ || queue.Has(count);
    };
    for (bool in_time = true; in_time && !queue.Has(count);) {
      if (closed_) throw PoolError("this pool is closed");
      const Awaited awaited(queue.awaited, count);
      const Unlocked unlocked(lock);
      in_time = wait_until_(delivered_, is_over, until, interrupted);
    }
    check();
  };
  check();
  wait_for(least);
  if (timeout) wait_for(most);
  if (queue.faults.empty() && queue.ready.size() < least) return std::nullopt;
  return Take(queue, op, most);
}

std::optional<Outbox::Received> Outbox::Receive(Op op, std::size_t least, std::size_t most,
                                                std::optional<Clock::duration> timeout,
                                                InterruptCheck interrupted) {
  Perturb();
  std::unique_lock lock(mutex_);
  Queue& queue = queues_[static_cast<std::size_t>(op)];
  const auto check = [&] {
    if (least <= queue.outstanding) return;
    throw PoolError("cannot wait for " + std::to_string(least) + " results of async_" + NameOf(op) +
                    "_send: only " + std::to_string(queue.outstanding) + " are outstanding");
  };
  const std::size_t limit = most == 0 ? static_cast<std::size_t>(-1) : most;
  return ReceiveFrom(queue, op, least, limit, timeout, interrupted, check, std::move(lock));
}

std::optional<Outbox::Received> Outbox::ReceiveAlone(Op op, std::uint32_t env,
                                                     std::optional<Clock::duration> timeout,
                                                     InterruptCheck interrupted) {
  Perturb();
  std::unique_lock lock(mutex_);
  const auto queue = alone_.find(env);
  const auto check = [&] {
    const Sent& sent = sent_[env];
    if (sent.is_alone && sent.op == op && queue->second.outstanding > 0) return;
    throw PoolError("env " + std::to_string(env) + " was not sent alone with async_" + NameOf(op) +
                    "_send, or another thread has received it");
  };
  check();
  return ReceiveFrom(queue->second, op, 1, 1, timeout, interrupted, check, std::move(lock));
}

}  // namespace torchrl_pool::core
