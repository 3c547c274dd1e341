// Several steps of each env in one call, in which no env waits for another.
#include <cstdint>
#include <string>
#include <vector>

#include "check.h"
#include "client.h"
#include "concurrency.h"
#include "fixture.h"
#include "pool.h"

namespace torchrl_pool::core {
namespace {

using test::Client;
using test::Counter;
using test::SomeActions;

using Longs = std::vector<std::int64_t>;

std::vector<Longs> ActionsOf(std::uint32_t num_envs, int num_steps) {
  std::vector<Longs> chosen;
  for (int step = 0; step < num_steps; ++step) chosen.push_back(SomeActions(num_envs, step));
  return chosen;
}

// The rows of `env` after its first `made` steps; the rest are zero.
void CheckRows(Client& client, std::uint32_t env, const std::vector<Longs>& chosen, std::size_t made,
               std::int64_t limit = 0) {
  for (std::size_t step = 0; step < chosen.size(); ++step) {
    const std::size_t row = env * chosen.size() + step;
    if (step >= made) {
      CHECK(client.out->IsZero(row));
      continue;
    }
    Counter& model = client.models[env];
    model.Step(chosen[step][env]);
    const auto seen = model.Observe();
    CHECK_EQ(client.out->Values<std::int64_t>("count", row), Longs(seen.begin(), seen.end()));
    CHECK_EQ(client.out->Get<float>("reward", row), model.Reward());
    CHECK_EQ(client.out->Get<std::uint8_t>("done", row) != 0, limit > 0 && model.steps >= limit);
  }
}

TEST(SeveralStepsEqualStepsOneByOne) {
  for (const int threads : {1, 3}) {
    for (const std::int64_t cost : {0, 30'000}) {
      Client client(17, {.options = {{"cost_ns", cost}}, .num_threads = threads, .max_episode_steps = 7});
      client.CheckedReset();
      for (const int num_steps : {1, 4, 6}) {  // beyond the episode's end too: nothing is reset
        const auto chosen = ActionsOf(17, num_steps);
        client.Steps(chosen);
        for (std::uint32_t env = 0; env < 17; ++env) CheckRows(client, env, chosen, chosen.size(), 7);
      }
    }
  }
}

TEST(AFailureAmongSeveralStepsEndsThoseOfItsEnv) {
  for (const char* kind : {"fail_on_action", "refuse_action"}) {
    Client client(6, {.options = {{kind, std::int64_t{9}}}, .num_threads = 2});
    client.CheckedReset();
    auto chosen = std::vector<Longs>(5, Longs(6, 2));
    chosen[3][1] = chosen[0][4] = 9;
    try {
      client.Steps(chosen);
      CHECK(false);
    } catch (const EnvFailure& e) {
      CHECK_EQ(e.faults.size(), std::size_t{2});
      CHECK_EQ(e.faults[0].env_index, 1);
      CHECK_EQ(e.faults[0].step, 4);
      CHECK_EQ(e.faults[1].env_index, 4);
      CHECK_EQ(e.faults[1].step, 1);
    }
    const std::vector<std::size_t> made = {5, 3, 5, 5, 0, 5};
    for (std::uint32_t env = 0; env < 6; ++env) CheckRows(client, env, chosen, made[env]);
    const auto calm = std::vector<Longs>(2, Longs(6, 3));
    if (kind == std::string("fail_on_action")) {
      CHECK_THROWS(PoolError, "env 1 has failed and must be reset", client.Steps(calm));
      continue;
    }
    client.Steps(calm);  // those that refused an action are as before it
    for (std::uint32_t env = 0; env < 6; ++env) CheckRows(client, env, calm, calm.size());
  }
}

TEST(AnInterruptEndsSeveralSteps) {
  Client client(2, {.options = {{"slow_action", std::int64_t{1}}, {"slow_us", std::int64_t{20'000}}}});
  client.CheckedReset();
  client.interrupted = test::AlwaysInterrupted;
  const auto slow = std::vector<Longs>(1000, Longs(2, 1));  // twenty seconds
  CHECK(test::IsInterrupted([&] { client.Steps(slow); }));
  client.interrupted = test::NeverInterrupted;
  client.Reset();
}

}  // namespace
}  // namespace torchrl_pool::core
