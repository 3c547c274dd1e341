// Tests that do at random whatever callers may do: many short-lived pools, each from a seed.
#ifndef TORCHRL_POOL_TESTS_STORM_H_
#define TORCHRL_POOL_TESTS_STORM_H_

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

#include "check.h"
#include "fixture.h"

namespace torchrl_pool::test {

// The interrupt check says yes when this many have been asked; negative: never.
inline std::atomic<int> checks_left{-1};
inline bool Interrupting() { return checks_left.load() >= 0 && checks_left.fetch_sub(1) == 0; }

class Dice {
 public:
  explicit Dice(std::uint32_t seed) : random_(seed) {}

  std::uint32_t Draw(std::uint32_t below) { return static_cast<std::uint32_t>(random_() % below); }
  bool OneIn(std::uint32_t count) { return Draw(count) == 0; }
  template <class T>
  const T& OneOf(const std::vector<T>& items) {
    return items[Draw(static_cast<std::uint32_t>(items.size()))];
  }

 private:
  std::mt19937 random_;
};

// Storm(seed).Run(), for many seeds. For a longer hunt: TORCHRL_POOL_STRESS_POOLS=100000 ./stress_test
template <class Storm>
void RunStorms(int pools) {
  if (const char* longer = std::getenv("TORCHRL_POOL_STRESS_POOLS")) pools = std::atoi(longer);
  for (int seed = 0; seed < pools; ++seed) {
    try {
      Storm(static_cast<std::uint32_t>(seed)).Run();
    } catch (...) {
      std::fprintf(stderr, "with seed %d:\n", seed);
      throw;
    }
    CHECK_EQ(TheProbe().envs.load(), 0);
  }
}

}  // namespace torchrl_pool::test

#endif  // TORCHRL_POOL_TESTS_STORM_H_
