// Refuses actions that no env can take, before any env sees one.
#ifndef TORCHRL_POOL_CORE_VALIDATE_H_
#define TORCHRL_POOL_CORE_VALIDATE_H_

#include <cstdint>
#include <span>

#include "layout.h"

namespace torchrl_pool::core {

// Checks the actions of these envs, which share `config`; an env's rows begin at its index times `num_steps`.
// Categories exist, one-hot vectors hold zeros and at least one 1, numbers are finite, and within their
// bounds where the column says so. Throws StatusError naming env and element.
void CheckActions(const Layout& layout, const Config& config, const Batch& actions,
                  std::span<const std::uint32_t> envs, std::uint32_t num_steps = 1);

}  // namespace torchrl_pool::core

#endif  // TORCHRL_POOL_CORE_VALIDATE_H_
