// What a pool is measured against: the same envs, stepped by plain threads. No pool, no queues, no batches.
#ifndef TORCHRL_POOL_BENCH_BARE_LOOP_H_
#define TORCHRL_POOL_BENCH_BARE_LOOP_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "layout.h"
#include "plugin.h"

namespace torchrl_pool::core {

// Every thread has a fixed share of the envs, and the threads meet only at the end of a run. What envs write
// goes to one row of scratch per thread, which nobody reads. Used by one thread at a time.
class BareLoop {
 public:
  // Creates and resets the envs, seeded with their index. max_episode_steps 0: no limit. Throws StatusError.
  BareLoop(std::shared_ptr<const Config> config, std::uint32_t num_envs, int num_threads,
           std::int64_t max_episode_steps);
  ~BareLoop();
  BareLoop(const BareLoop&) = delete;
  BareLoop& operator=(const BareLoop&) = delete;

  // Rows of actions for envs to take in turn: for each action of the task, its first row.
  struct Actions {
    std::vector<const std::byte*> rows;
    std::size_t num_rows;  // at least 1
  };

  // Steps every env `steps` times and starts a new episode where one ends. Returns how many ended. Throws
  // StatusError with the message of an env that fails; its thread then leaves its other envs alone.
  std::int64_t Run(std::int64_t steps, const Actions& actions);

 private:
  struct Share;

  void OnAllThreads(const std::function<void(Share&)>& work);

  const std::shared_ptr<const Config> config_;
  const Layout layout_;
  const std::int64_t max_episode_steps_;
  std::vector<std::unique_ptr<Share>> shares_;
};

}  // namespace torchrl_pool::core

#endif  // TORCHRL_POOL_BENCH_BARE_LOOP_H_
