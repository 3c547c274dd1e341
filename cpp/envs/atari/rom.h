// The games' cartridges, as the Python package ale_py ships them.
#ifndef TORCHRL_POOL_ENVS_ATARI_ROM_H_
#define TORCHRL_POOL_ENVS_ATARI_ROM_H_

#include <string>

namespace torchrl_pool::atari {

// The path of a game's ROM, whose contents are the ones that ALE knows. ALE would end the process over a ROM
// that is not, so nothing else gets to it.
//
// Throws FileNotFound where there is no such file, and InvalidArgument where it is another ROM.
std::string FindRom(const std::string& game);

}  // namespace torchrl_pool::atari

#endif  // TORCHRL_POOL_ENVS_ATARI_ROM_H_
