// What the env "Counter-v0" of test_plugin.cc computes: shared with the tests, which run it themselves to
// know what a pool has to give.
#ifndef TORCHRL_POOL_TESTS_COUNTER_H_
#define TORCHRL_POOL_TESTS_COUNTER_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <thread>

namespace torchrl_pool::test {

constexpr std::int64_t kCounterActions = 10;

struct Counter {
  std::int64_t seed = 0;
  std::int64_t resets = 0;    // since the seed
  std::int64_t steps = 0;     // in this episode
  std::int64_t checksum = 0;  // of this episode's actions, in their order

  void Seed(std::int64_t value) { *this = {.seed = value}; }
  void Reset() { *this = {.seed = seed, .resets = resets + 1}; }
  void Step(std::int64_t action) {
    ++steps;
    checksum = (checksum * 31 + action + 1) % 1'000'000'007;
  }
  float Reward() const { return static_cast<float>(checksum % 64) - 20; }
  std::array<std::int64_t, 4> Observe() const { return {seed, resets, steps, checksum}; }
};

// How tests look into the plugin and hold its envs up. One per process; the plugin exports it.
struct Probe {
  std::atomic<std::int64_t> envs{0};  // alive
  // While true, envs with the option "gate" wait in steps and resets, except on the thread `exempt`.
  std::atomic<bool> gate_closed{false};
  std::atomic<int> at_gate{0};
  std::atomic<std::thread::id> exempt{};
  std::atomic<bool> rendering{false};
};
constexpr char kProbeSymbol[] = "torchrl_pool_test_probe";

}  // namespace torchrl_pool::test

#endif  // TORCHRL_POOL_TESTS_COUNTER_H_
