#ifndef TORCHRL_POOL_ENVS_ATARI_GAMES_H_
#define TORCHRL_POOL_ENVS_ATARI_GAMES_H_

#include <string>

namespace torchrl_pool::atari {

// The name of a task's game, as ALE and its ROM file have it: "ms_pacman" of "ALE/MsPacman-v5".
std::string GameOf(const std::string& task_id);

}  // namespace torchrl_pool::atari

#endif  // TORCHRL_POOL_ENVS_ATARI_GAMES_H_
