// Which thread each env is at home with: one map for all that a pool does, fixed for its life.
#ifndef TORCHRL_POOL_CORE_THREADS_HOME_MAP_H_
#define TORCHRL_POOL_CORE_THREADS_HOME_MAP_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "cache_line.h"

namespace torchrl_pool::core {

// Homes are contiguous ranges of envs, as equal as can be. Large ones begin at multiples of a cache line's
// bytes, so that no two homes write to one line of a column, however narrow that is.
class HomeMap {
 public:
  HomeMap(std::uint32_t num_envs, int num_homes) {
    const auto homes = static_cast<std::uint64_t>(num_homes);
    const std::uint64_t grain = num_envs / homes >= 4 * kCacheLine ? kCacheLine : 1;
    for (std::uint64_t home = 0; home < homes; ++home) {
      first_.push_back(static_cast<std::uint32_t>(num_envs * home / homes / grain * grain));
    }
    first_.push_back(num_envs);
  }

  int size() const { return static_cast<int>(first_.size()) - 1; }

  // The first env of a home; of the one after the last: the number of envs.
  std::uint32_t First(int home) const { return first_[static_cast<std::size_t>(home)]; }

  int Of(std::uint32_t env) const {
    return static_cast<int>(std::upper_bound(first_.begin() + 1, first_.end() - 1, env) - first_.begin()) - 1;
  }

 private:
  std::vector<std::uint32_t> first_;
};

}  // namespace torchrl_pool::core

#endif  // TORCHRL_POOL_CORE_THREADS_HOME_MAP_H_
