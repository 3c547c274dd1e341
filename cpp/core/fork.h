// Whether a fork came between: a child has none of its parent's threads, and locks that these held stay
// locked.
#ifndef TORCHRL_POOL_CORE_FORK_H_
#define TORCHRL_POOL_CORE_FORK_H_

#include <atomic>

namespace torchrl_pool::core {

namespace internal {
extern std::atomic<unsigned> fork_generation;
}

// Grows by one in each forked child: what remembers another number was made by a parent.
inline unsigned ForkGeneration() { return internal::fork_generation.load(std::memory_order_relaxed); }

}  // namespace torchrl_pool::core

#endif  // TORCHRL_POOL_CORE_FORK_H_
