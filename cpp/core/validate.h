// Refuses actions that no env can take, before any env sees one.
#ifndef TORCHRL_POOL_CORE_VALIDATE_H_
#define TORCHRL_POOL_CORE_VALIDATE_H_

#include <cstdint>

#include "layout.h"

namespace torchrl_pool::core {

// Checks the actions of envs [first, first + count), which share `config`: categories exist, one-hot rows
// hold exactly one 1, numbers are finite and within their bounds. Throws StatusError naming env and element.
void CheckActions(const Layout& layout, const Config& config, const Batch& actions, std::uint32_t first,
                  std::uint32_t count);

}  // namespace torchrl_pool::core

#endif  // TORCHRL_POOL_CORE_VALIDATE_H_
