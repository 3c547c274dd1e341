// Which env is at home where.
#include "threads/home_map.h"

#include <cstdint>

#include "check.h"

namespace torchrl_pool::core {
namespace {

TEST(EveryEnvHasOneHome) {
  for (const std::uint32_t num_envs : {1u, 2u, 7u, 64u, 1000u, 10'000u}) {
    for (const int num_homes : {1, 2, 3, 16, 64}) {
      if (static_cast<std::uint32_t>(num_homes) > num_envs) continue;
      const HomeMap homes(num_envs, num_homes);
      CHECK_EQ(homes.size(), num_homes);
      CHECK_EQ(homes.First(0), 0u);
      CHECK_EQ(homes.First(num_homes), num_envs);
      for (int home = 0; home < num_homes; ++home) {
        CHECK(homes.First(home) < homes.First(home + 1));
        for (std::uint32_t env = homes.First(home); env < homes.First(home + 1); ++env)
          CHECK_EQ(homes.Of(env), home);
      }
    }
  }
}

TEST(LargeHomesShareNoCacheLineOfFlags) {
  const HomeMap homes(10'000, 3);
  for (int home = 1; home < 3; ++home) CHECK_EQ(homes.First(home) % kCacheLine, 0u);
}

}  // namespace
}  // namespace torchrl_pool::core
