// One simulator, and what the executor knows of its episode.
#ifndef TORCHRL_POOL_CORE_ENV_SLOT_H_
#define TORCHRL_POOL_CORE_ENV_SLOT_H_

#include <cstddef>
#include <cstdint>

#include "cache_line.h"
#include "plugin.h"

namespace torchrl_pool::core {

// On cache lines of its own, because its home thread writes it at every step. All zeros before it is created.
struct alignas(kCacheLine) EnvSlot {
  const Config* config;
  const trp_task* task;  // of the config
  trp_env* env;
  std::int64_t max_episode_steps;  // 0: no limit
  std::int64_t elapsed_steps;
  std::byte* state;  // of the stages
};

}  // namespace torchrl_pool::core

#endif  // TORCHRL_POOL_CORE_ENV_SLOT_H_
