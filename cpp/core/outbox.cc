#include "outbox.h"

#include <algorithm>
#include <bit>
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

// Without the lock while it lives.
class Unlocked {
 public:
  explicit Unlocked(std::unique_lock<std::mutex>& lock) : lock_(lock) { lock_.unlock(); }
  ~Unlocked() { lock_.lock(); }
  Unlocked(const Unlocked&) = delete;

 private:
  std::unique_lock<std::mutex>& lock_;
};

std::optional<Outbox::Clock::time_point> DeadlineOf(std::optional<Outbox::Clock::duration> timeout) {
  if (!timeout) return std::nullopt;
  return Outbox::Clock::now() + *timeout;
}

}  // namespace

Outbox::Outbox(std::uint32_t num_envs, Deliverer& deliverer)
    : deliverer_(deliverer), sent_(num_envs), is_taken_((num_envs + 63) / 64) {
  for (Queue& queue : queues_) queue.ready.reserve(num_envs);
}

void Outbox::Close() {
  {
    Perturb();
    std::lock_guard lock(mutex_);
    closed_ = true;
  }
  delivered_.notify_all();
}

void Outbox::Expect(Op op, std::span<const std::uint32_t> envs, bool alone,
                    const std::shared_ptr<void>& cargo) {
  Perturb();
  std::lock_guard lock(mutex_);
  Queue& queue = queues_[static_cast<std::size_t>(op)];
  for (std::uint32_t i = 0; i < envs.size(); ++i) {
    sent_[envs[i]] = {alone ? How::kAlone : How::kWithOthers, op, Result::kOk, {cargo, i}};
  }
  if (!alone) queue.outstanding += envs.size();
}

void Outbox::Deliver(Op op, std::span<const std::uint32_t> envs, std::span<const Result> results,
                     std::vector<EnvFault>& faults) {
  bool wake = false;
  {
    Perturb();
    std::lock_guard lock(mutex_);
    Queue& queue = queues_[static_cast<std::size_t>(op)];
    for (auto* list : {&queue.faults, &faults_alone_}) list->reserve(list->size() + faults.size());
    for (EnvFault& fault : faults) {
      const bool alone = sent_[static_cast<std::size_t>(fault.env_index)].how == How::kAlone;
      (alone ? faults_alone_ : queue.faults).push_back(std::move(fault));
    }
    for (std::size_t i = 0; i < envs.size(); ++i) {
      Sent& sent = sent_[envs[i]];
      sent.result = results[i];
      if (sent.how == How::kAlone) {
        sent.how = How::kAloneAndReady;
      } else if (results[i] != Result::kFailed) {
        queue.ready.push_back(envs[i]);
      }
    }
    wake = CanWake(queue);
  }
  faults.clear();
  if (wake) delivered_.notify_all();
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
  {
    Perturb();
    std::lock_guard lock(mutex_);
    Queue& queue = queues_[static_cast<std::size_t>(received.op)];
    for (std::size_t k = 0; k < received.envs.size(); ++k) sent_[received.envs[k]].cargo = received.cargo[k];
    if (received.alone) {
      sent_[received.envs[0]].how = How::kAloneAndReady;
    } else {
      queue.ready.insert(queue.ready.begin(), received.envs.begin(), received.envs.end());
      queue.outstanding += received.envs.size();
    }
  }
  delivered_.notify_all();
}

bool Outbox::CanWake(const Queue& queue) {
  const auto goes_on = [&](std::size_t count) {
    return queue.ready.size() >= std::min(count, queue.outstanding) || !queue.faults.empty();
  };
  return std::any_of(queue.awaited.begin(), queue.awaited.end(), goes_on);
}

template <class Enough>
bool Outbox::WaitUntil(std::unique_lock<std::mutex>& lock, const std::optional<Clock::time_point>& deadline,
                       InterruptCheck interrupted, const Enough& enough) {
  // However often other threads' results wake this one, it asks in time.
  auto next_check = Clock::now() + kInterruptPeriod;
  while (true) {
    const std::uint64_t deliveries = deliverer_.Deliveries();
    if (enough()) return true;
    if (closed_) throw PoolError("this pool is closed");
    if (deadline && Clock::now() >= *deadline) return false;
    const auto until = deadline ? std::min(next_check, *deadline) : next_check;
    bool works = false;
    {
      const Unlocked unlocked(lock);
      works = deliverer_.WorkUntil(deliveries, until);
    }
    if (!works && !enough()) delivered_.wait_until(lock, until);
    if (Clock::now() < next_check) continue;
    bool stop = false;
    {
      const Unlocked unlocked(lock);
      deliverer_.LookAfterWork();
      stop = interrupted();  // may take a lock of its own, or throw
      Perturb();
    }
    if (stop) throw Interrupted();
    next_check = Clock::now() + kInterruptPeriod;
  }
}

Outbox::Received Outbox::Take(Op op, std::size_t count) {
  Queue& queue = queues_[static_cast<std::size_t>(op)];
  Received received;
  received.op = op;
  if (!queue.faults.empty()) {
    received.faults.swap(queue.faults);
    for (const EnvFault& fault : received.faults) TakeCargo(fault.env_index, received);
    queue.outstanding -= received.faults.size();
    if (CanWake(queue)) delivered_.notify_all();
    return received;
  }
  count = std::min(count, queue.ready.size());
  received.resets.reserve(count);
  const auto end = queue.ready.begin() + static_cast<std::ptrdiff_t>(count);
  received.envs.assign(queue.ready.begin(), end);
  queue.ready.erase(queue.ready.begin(), end);
  queue.outstanding -= count;
  if (CanWake(queue)) delivered_.notify_all();  // who waited for more has no more to wait for
  Sort(received.envs);
  for (const std::uint32_t env : received.envs) {
    received.resets.push_back(sent_[env].result == Result::kReset);
    TakeCargo(env, received);
  }
  return received;
}

// It leaves with what is received, so that it is let go of where no lock is held.
void Outbox::TakeCargo(std::int64_t env, Received& received) {
  received.cargo.push_back(std::move(sent_[static_cast<std::size_t>(env)].cargo));
}

// Many numbers of a limited range are sorted by marking them and looking for the marks.
void Outbox::Sort(std::vector<std::uint32_t>& envs) {
  if (std::is_sorted(envs.begin(), envs.end())) return;
  if (envs.size() < is_taken_.size()) return std::sort(envs.begin(), envs.end());
  for (const std::uint32_t env : envs) is_taken_[env / 64] |= std::uint64_t{1} << env % 64;
  auto next = envs.begin();
  for (std::size_t word = 0; word < is_taken_.size(); ++word) {
    for (std::uint64_t bits = std::exchange(is_taken_[word], 0); bits != 0; bits &= bits - 1) {
      *next++ = static_cast<std::uint32_t>(word * 64) + static_cast<std::uint32_t>(std::countr_zero(bits));
    }
  }
}

std::optional<Outbox::Received> Outbox::Receive(Op op, std::size_t least, std::size_t most,
                                                std::optional<Clock::duration> timeout,
                                                InterruptCheck interrupted) {
  const auto deadline = DeadlineOf(timeout);
  Perturb();
  std::unique_lock lock(mutex_);
  Queue& queue = queues_[static_cast<std::size_t>(op)];
  const auto check_outstanding = [&] {
    if (least <= queue.outstanding) return;
    throw PoolError("cannot wait for " + std::to_string(least) + " results of async_" + NameOf(op) +
                    "_send: only " + std::to_string(queue.outstanding) + " are outstanding");
  };
  check_outstanding();
  const auto wait_for = [&](std::size_t count) {
    // No more than there are: another thread may receive some of them in the meantime.
    const auto has = [&] {
      return queue.ready.size() >= std::min(count, queue.outstanding) || !queue.faults.empty();
    };
    if (has()) return true;
    const Awaited awaited(queue.awaited, count);
    return WaitUntil(lock, deadline, interrupted, has);
  };
  if (!wait_for(least)) return std::nullopt;
  check_outstanding();
  const std::size_t limit = most == 0 ? static_cast<std::size_t>(-1) : most;
  if (deadline) {
    wait_for(limit);
    // While this thread waited for more, others may have received what it had.
    check_outstanding();
    if (queue.faults.empty() && queue.ready.size() < least) return std::nullopt;
  }
  return Take(op, limit);
}

std::optional<Outbox::Received> Outbox::ReceiveAlone(Op op, std::uint32_t env,
                                                     std::optional<Clock::duration> timeout,
                                                     InterruptCheck interrupted) {
  const auto deadline = DeadlineOf(timeout);
  Perturb();
  std::unique_lock lock(mutex_);
  Sent& sent = sent_[env];
  const auto is_sent = [&] { return sent.op == op && sent.how != How::kWithOthers; };
  if (!is_sent()) {
    throw PoolError("env " + std::to_string(env) + " was not sent alone with async_" + NameOf(op) + "_send");
  }
  {
    const Awaited awaited(queues_[static_cast<std::size_t>(op)].awaited, 0);
    const auto has = [&] { return sent.how != How::kAlone; };
    if (!WaitUntil(lock, deadline, interrupted, has)) return std::nullopt;
  }
  if (!is_sent()) throw PoolError("another thread has received env " + std::to_string(env));
  sent.how = How::kWithOthers;
  Received received;
  received.op = op;
  received.alone = true;
  TakeCargo(env, received);
  for (auto fault = faults_alone_.begin(); fault != faults_alone_.end(); ++fault) {
    if (static_cast<std::uint32_t>(fault->env_index) != env) continue;
    received.faults.push_back(std::move(*fault));
    faults_alone_.erase(fault);
    return received;
  }
  received.envs.push_back(env);
  received.resets.push_back(sent.result == Result::kReset);
  return received;
}

}  // namespace torchrl_pool::core
