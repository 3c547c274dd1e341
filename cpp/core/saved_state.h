// An env's state as bytes: the simulator's own, the executor's and that of every stage.
#ifndef TORCHRL_POOL_CORE_SAVED_STATE_H_
#define TORCHRL_POOL_CORE_SAVED_STATE_H_

#include <cstdint>
#include <span>
#include <vector>

#include "visit.h"

namespace torchrl_pool::core {

// Both throw StatusError, and then have left the env as it was.
std::vector<std::uint8_t> SaveState(const Layout& layout, const EnvSlot& slot, std::uint32_t env_index);

// An env that is not ready, because it has failed or was never reset, gets a new simulator for it; one of a
// worker is given the state as it is.
void LoadState(const Layout& layout, EnvSlot& slot, std::uint32_t env_index, bool is_ready,
               std::span<const std::uint8_t> bytes);

// A status of a function of the plugin's ABI, as an exception.
void ThrowUnlessOk(int status, const EnvSlot& slot, std::uint32_t env_index, const trp_error& error);

}  // namespace torchrl_pool::core

#endif  // TORCHRL_POOL_CORE_SAVED_STATE_H_
