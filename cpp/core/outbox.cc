#include "outbox.h"

#include <algorithm>

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

std::optional<Outbox::Clock::time_point> DeadlineOf(std::optional<Outbox::Clock::duration> timeout) {
  if (!timeout) return std::nullopt;
  return Outbox::Clock::now() + *timeout;
}

}  // namespace

std::size_t Outbox::outstanding() const {
  Perturb();
  std::lock_guard lock(mutex_);
  std::size_t count = 0;
  for (const Queue& queue : queues_) count += queue.outstanding + queue.alone.size();
  return count;
}

void Outbox::Close() {
  {
    Perturb();
    std::lock_guard lock(mutex_);
    closed_ = true;
  }
  delivered_.notify_all();
}

void Outbox::Expect(Op op, std::span<const std::uint32_t> envs, bool alone) {
  Perturb();
  std::lock_guard lock(mutex_);
  Queue& queue = queues_[static_cast<std::size_t>(op)];
  for (const std::uint32_t env : envs) {
    alone_[env] = alone;
    ready_alone_[env] = false;
    if (alone) queue.alone.push_back(env);
  }
  if (!alone) queue.outstanding += envs.size();
}

void Outbox::Deliver(Op op, std::uint32_t first, std::span<const Result> results) {
  bool wake = false;
  {
    Perturb();
    std::lock_guard lock(mutex_);
    Queue& queue = queues_[static_cast<std::size_t>(op)];
    for (std::size_t i = 0; i < results.size(); ++i) {
      const std::uint32_t env = first + static_cast<std::uint32_t>(i);
      results_[env] = results[i];
      if (alone_[env]) {
        ready_alone_[env] = true;
      } else if (results[i] != Result::kFailed) {
        queue.ready.push_back(env);
      }
    }
    wake = WakesSomebody(queue);
  }
  if (wake) delivered_.notify_all();
}

bool Outbox::WakesSomebody(const Queue& queue) {
  if (queue.waiting_alone > 0) return true;
  const auto goes_on = [&](std::size_t count) {
    return queue.ready.size() >= count || !queue.faults.empty();
  };
  return std::any_of(queue.awaited.begin(), queue.awaited.end(), goes_on);
}

void Outbox::Fail(Op op, EnvFault fault) {
  Perturb();
  std::lock_guard lock(mutex_);
  Queue& queue = queues_[static_cast<std::size_t>(op)];
  auto& faults = alone_[static_cast<std::size_t>(fault.env_index)] ? queue.faults_alone : queue.faults;
  faults.push_back(std::move(fault));
}

template <class Enough>
bool Outbox::WaitUntil(std::unique_lock<std::mutex>& lock, const std::optional<Clock::time_point>& deadline,
                       const InterruptCheck& interrupted, const Enough& enough) {
  // However often other threads' results wake this one, it asks in time.
  auto next_check = Clock::now() + kInterruptPeriod;
  while (!enough()) {
    if (closed_) throw PoolError("this pool is closed");
    if (deadline && Clock::now() >= *deadline) return false;
    delivered_.wait_until(lock, deadline ? std::min(next_check, *deadline) : next_check);
    if (Clock::now() < next_check) continue;
    lock.unlock();
    const bool stop = interrupted();  // may take a lock of its own
    Perturb();
    lock.lock();
    if (stop) throw Interrupted();
    next_check = Clock::now() + kInterruptPeriod;
  }
  return true;
}

Outbox::Received Outbox::Take(Queue& queue, std::size_t count) {
  Received received;
  if (!queue.faults.empty()) {
    received.faults.swap(queue.faults);
    queue.outstanding -= received.faults.size();
    return received;
  }
  count = std::min(count, queue.ready.size());
  const auto end = queue.ready.begin() + static_cast<std::ptrdiff_t>(count);
  received.envs.assign(queue.ready.begin(), end);
  queue.ready.erase(queue.ready.begin(), end);
  queue.outstanding -= count;
  std::sort(received.envs.begin(), received.envs.end());
  for (const std::uint32_t env : received.envs) received.resets.push_back(results_[env] == Result::kReset);
  return received;
}

std::optional<Outbox::Received> Outbox::Receive(Op op, std::size_t least, std::size_t most,
                                                std::optional<Clock::duration> timeout,
                                                const InterruptCheck& interrupted) {
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
    const Awaited awaited(queue.awaited, std::min(count, queue.outstanding));
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
  return Take(queue, limit);
}

std::optional<Outbox::Received> Outbox::ReceiveAlone(Op op, std::uint32_t env,
                                                     std::optional<Clock::duration> timeout,
                                                     const InterruptCheck& interrupted) {
  const auto deadline = DeadlineOf(timeout);
  Perturb();
  std::unique_lock lock(mutex_);
  Queue& queue = queues_[static_cast<std::size_t>(op)];
  const auto is_sent = [&] { return std::find(queue.alone.begin(), queue.alone.end(), env); };
  if (is_sent() == queue.alone.end()) {
    throw PoolError("env " + std::to_string(env) + " was not sent by itself with async_" + NameOf(op) +
                    "_send");
  }
  ++queue.waiting_alone;
  bool in_time = false;
  try {
    in_time = WaitUntil(lock, deadline, interrupted, [&] { return ready_alone_[env] != 0; });
  } catch (...) {
    --queue.waiting_alone;
    throw;
  }
  --queue.waiting_alone;
  if (!in_time) return std::nullopt;
  const auto sent = is_sent();
  if (sent == queue.alone.end()) {
    throw PoolError("another thread has received env " + std::to_string(env));
  }
  queue.alone.erase(sent);
  Received received;
  for (auto fault = queue.faults_alone.begin(); fault != queue.faults_alone.end(); ++fault) {
    if (static_cast<std::uint32_t>(fault->env_index) != env) continue;
    received.faults.push_back(std::move(*fault));
    queue.faults_alone.erase(fault);
    return received;
  }
  received.envs.push_back(env);
  received.resets.push_back(results_[env] == Result::kReset);
  return received;
}

}  // namespace torchrl_pool::core
