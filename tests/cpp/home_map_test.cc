// Which env is at home where, and who wakes whom.
#include "threads/home_map.h"

#include <cstdint>
#include <set>
#include <vector>

#include "check.h"
#include "threads/wake_span.h"

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

TEST(ASpanSurvivesPacking) {
  const WakeSpan span{4000, 4095, 2048, 1, 2047, true};
  const WakeSpan copy = WakeSpan::Unpack(span.Pack());
  CHECK_EQ(
      (std::vector<int>{copy.first_home, copy.num_homes, copy.shares, copy.begin, copy.end, copy.insists}),
      (std::vector<int>{4000, 4095, 2048, 1, 2047, 1}));
}

// All are woken, each once; whoever wakes others has few of them, and few come one after the other.
TEST(WakingIsATree) {
  for (const int threads : {1, 2, 3, 16, 64, 255, 1024}) {
    std::multiset<int> woken;
    int most = 0, depth = 0;
    const auto wake = [&](const auto& self, WakeSpan span, int level) -> void {
      depth = std::max(depth, level);
      int own = 0;
      while (!span.empty()) {
        woken.insert(span.HomeOf(span.begin++));
        ++own;
        const WakeSpan given = span.TakeHalf();
        if (!given.empty()) self(self, given, level + 1);
      }
      most = std::max(most, own);
    };
    wake(wake, {0, threads, threads, 0, threads}, 1);
    CHECK_EQ(woken.size(), static_cast<std::size_t>(threads));
    CHECK_EQ(std::set<int>(woken.begin(), woken.end()).size(), woken.size());
    int log = 1;
    while (1 << log <= threads) ++log;
    CHECK(most <= log && depth <= log);
  }
}

}  // namespace
}  // namespace torchrl_pool::core
