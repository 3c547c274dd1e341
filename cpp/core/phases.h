// What a job does once all its visits are over: the later phases of its chain, and the rest of the root.
#ifndef TORCHRL_POOL_CORE_PHASES_H_
#define TORCHRL_POOL_CORE_PHASES_H_

#include <cstdint>
#include <span>

#include "job.h"

namespace torchrl_pool::core {

// Whether a job has another phase to go through.
enum class Next {
  kPhase,
  kNone,
  kLater,  // the lock of its statistics is held elsewhere: try again later
};

// Moves the job to its next phase, after what has to be known of all rows before it begins. By the one
// thread that has done the last of a phase. `all`: the envs of the pool.
Next NextPhase(const Layout& layout, std::span<const std::uint32_t> all, Job& job);

// Does these envs' part of a phase that is not the visits.
void RunPhase(const Layout& layout, const Job& job, std::span<const std::uint32_t> envs);

// Whether the root is complete once an env has been visited: no later phase of a chain writes to it.
bool CompletesRootInVisits(const Job& job);
// Where these envs go on with their episodes, their rows of the root are copied from `out`: everywhere, if
// the step begins none.
void CompleteRoot(const Layout& layout, const Job& job, std::span<const std::uint32_t> envs);

}  // namespace torchrl_pool::core

#endif  // TORCHRL_POOL_CORE_PHASES_H_
