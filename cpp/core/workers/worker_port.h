// A worker's end of the memory that it shares with its pool.
#ifndef TORCHRL_POOL_CORE_WORKERS_WORKER_PORT_H_
#define TORCHRL_POOL_CORE_WORKERS_WORKER_PORT_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "workers/arena.h"

namespace torchrl_pool::core {

// For one thread.
class WorkerPort {
 public:
  WorkerPort(std::shared_ptr<Arena> arena, int worker);

  const Arena& arena() const { return *arena_; }
  std::uint32_t first_env() const { return arena_->shape().first_env[static_cast<std::size_t>(worker_)]; }
  std::uint32_t num_envs() const {
    return arena_->shape().first_env[static_cast<std::size_t>(worker_) + 1] - first_env();
  }

  // The next request, if there is one. Throws PoolError where the shared memory holds no sense.
  std::optional<Request> Next();
  // Whether there is something in the channel; asked once for each.
  bool TakeMessage();
  // Spins for a moment, then parks, until there is either of them: for so long at most.
  void Wait(std::chrono::nanoseconds timeout);

  // The seed that a reset of this env begins with; none: it goes on with its stream. Throws StatusError for
  // one that is too long.
  std::span<const std::uint32_t> SeedOf(std::uint32_t env) const;

  // Under which number the options of a reset of this env were told; 0: it has none.
  std::uint64_t NoteOf(std::uint32_t env) const { return arena_->cell(env).note; }

  // ---- Results. Rows have been written before.

  void Stepped(std::uint32_t env, double reward, bool terminated, bool truncated);
  void WasReset(std::uint32_t env, bool terminated, bool truncated);
  // What failed is the reset, if the env has stepped.
  void Failed(std::uint32_t env, std::string_view message);
  // The request is over for this env.
  void Finish();
  // So many envs were stepped in this time.
  void CountSteps(std::uint32_t count, std::chrono::nanoseconds time);

 private:
  bool HasWork() const;
  void Publish();

  const std::shared_ptr<Arena> arena_;
  const int worker_;
  Mailbox& mailbox_;
  std::uint64_t next_;
  // Envs so far, those before this process included: no one else's writes into the mailbox change them.
  std::uint64_t finished_ = 0, begun_ = 0;
  bool has_begun_ = false;
};

}  // namespace torchrl_pool::core

#endif  // TORCHRL_POOL_CORE_WORKERS_WORKER_PORT_H_
