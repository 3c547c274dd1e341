// What a pool gives, however many envs and threads there are.
#include "pool.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "check.h"
#include "client.h"
#include "concurrency.h"
#include "fixture.h"

namespace torchrl_pool::core {
namespace {

using test::Client;
using test::ClientOptions;
using test::Mask;
using test::Scaled;
using test::SomeActions;
using test::SomeMask;

const test::Options kEpisodes = {{"episode_length", 5}, {"truncate_at", 7}};

// Resets, steps and partial resets whose every number is checked against the model.
void Exercise(Client& client, int steps) {
  const std::uint32_t n = client.size();
  client.CheckedReset();
  for (int step = 0; step < steps; ++step) {
    const auto chosen = SomeActions(n, step);
    const Mask mask = SomeMask(n, step, 60);
    switch (step % 5) {
      case 0:
        client.CheckedStep(Op::kStep, chosen, nullptr, 5, 7);
        break;
      case 1:
        client.CheckedStep(Op::kStep, chosen, &mask, 5, 7);
        break;
      case 2:
        client.CheckedReset(&mask, step % 2 == 0);
        break;
      case 3:
        client.CheckedStep(Op::kStepAndReset, chosen, nullptr, 5, 7);
        break;
      case 4:
        client.CheckedStep(Op::kStepAndReset, chosen, &mask, 5, 7);
        break;
    }
  }
}

TEST(GivesTheSameForAnyNumberOfThreads) {
  for (const int threads : {1, 2, 3, 8}) {
    for (const std::uint32_t n : {1u, 2u, 3u, 7u, 8u, 31u, 64u, 65u, 256u, 257u}) {
      Client client(n, {.options = kEpisodes, .num_threads = threads, .max_episode_steps = 9});
      CHECK_EQ(client.pool().num_threads(), std::min<int>(threads, static_cast<int>(n)));
      Exercise(client, Scaled(100));
    }
  }
}

TEST(GivesTheSameForAnyNumberOfEnvs) {
  for (std::uint32_t n = 1; n <= 257; n += test::kThreadSanitizer ? 8 : 1) {
    Client client(n, {.options = kEpisodes, .num_threads = 3});
    Exercise(client, 11);
  }
}

// Costs that make the pool share the work, in chunks of one or of many envs; sleeps that make it use more
// threads than there are processors.
TEST(GivesTheSameForAnyCost) {
  for (const int threads : {2, 3, 8}) {
    for (const std::int64_t cost : {300, 3'000, 60'000}) {
      for (const std::uint32_t n : {3u, 40u, 257u}) {
        Client client(n, {.options = {{"cost_ns", cost}, {"episode_length", 5}, {"truncate_at", 7}},
                          .num_threads = threads});
        Exercise(client, Scaled(cost > 10'000 ? 20 : 60));
      }
    }
    Client client(9, {.options = {{"sleep_us", 1500}, {"episode_length", 5}, {"truncate_at", 7}},
                      .num_threads = threads});
    Exercise(client, Scaled(30));
    Client slow(4, {.options = {{"sleep_us", 12'000}, {"episode_length", 5}, {"truncate_at", 7}},
                    .num_threads = threads});
    Exercise(slow, Scaled(10));
  }
}

TEST(AdaptsToEnvsOfDifferentCost) {
  std::vector<std::shared_ptr<const Config>> configs;
  for (int env = 0; env < 50; ++env) {
    const std::int64_t cost = env % 10 == 0 ? 400'000 : 0;
    configs.push_back(test::CounterConfig({{"cost_ns", cost}, {"episode_length", 5}, {"truncate_at", 7}}));
  }
  Client client(configs, {.num_threads = 4});
  Exercise(client, Scaled(60));
}

TEST(WritesStridedRows) {
  for (const std::size_t padding : {8u, 64u}) {
    for (const std::uint32_t n : {1u, 9u, 100u}) {
      Client client(n, {.options = kEpisodes, .num_threads = 3, .padding = padding});
      Exercise(client, Scaled(60));
    }
  }
}

TEST(AnEmptyMaskDoesNothing) {
  for (const std::int64_t cost : {0, 50'000}) {
    Client client(20, {.options = {{"cost_ns", cost}}, .num_threads = 3});
    const Mask none(20);
    client.CheckedReset(&none);
    client.CheckedReset();
    for (int step = 0; step < 3; ++step) {
      client.CheckedStep(Op::kStep, SomeActions(20, step), &none);
      client.CheckedStep(Op::kStepAndReset, SomeActions(20, step), &none);
      client.CheckedStep(Op::kStep, SomeActions(20, step));
    }
  }
}

TEST(MasksOfOneRow) {
  Client client(33, {.options = {{"cost_ns", 5'000}}, .num_threads = 4});
  client.CheckedReset();
  for (std::uint32_t env = 0; env < 33; ++env) {
    Mask mask(33);
    mask[env] = 255;
    client.CheckedStep(Op::kStepAndReset, SomeActions(33, 1), &mask);
    client.CheckedReset(&mask, false);
  }
}

TEST(SomeEnvsBeginEpisodesWhileOthersStep) {
  for (const std::int64_t cost : {0, 5'000}) {
    Client client(33, {.options = {{"cost_ns", cost}}, .num_threads = 3, .padding = 8});
    client.CheckedReset();
    for (int step = 0; step < Scaled(40); ++step) {
      Mask begins(33);
      for (std::uint32_t env = 0; env < 33; ++env) begins[env] = (env * 5 + step) % 4 == 0 || step == 7;
      std::vector<std::int64_t> chosen = SomeActions(33, step);
      for (std::uint32_t env = 0; env < 33; ++env) {
        if (begins[env]) chosen[env] = -1;  // no env takes it
      }
      client.CheckedStepOrBegin(chosen, begins);
    }
  }
}

TEST(EnvsThatBeginAndEnvsThatStepFailInOneCall) {
  Client client(6, {.options = {{"fail_on_action", 3}, {"fail_at_reset", 3}}, .num_threads = 2});
  client.Reset();
  const Mask begins = {0, 1, 0, 0, 1, 0};
  client.StepOrBegin({0, 0, 0, 0, 0, 0}, begins);
  // What is refused is refused before an env has moved.
  CHECK_THROWS(StatusError, "", client.StepOrBegin({0, 0, 0, 0, 0, -1}, begins));
  try {
    client.StepOrBegin({0, 0, 3, 0, 0, 0}, begins);
    CHECK(false);
  } catch (const EnvFailure& failure) {
    std::vector<std::pair<std::int64_t, std::int64_t>> found;
    for (const EnvFault& fault : failure.faults) found.emplace_back(fault.env_index, fault.step);
    const std::vector<std::pair<std::int64_t, std::int64_t>> expected = {
        {1, EnvFault::kInReset}, {2, 2}, {4, EnvFault::kInReset}};
    CHECK(found == expected);
  }
  CHECK_EQ(client.out->Values<std::int64_t>("count", 2)[0], 0);
  // Those that have failed may begin, and do not step.
  CHECK_THROWS(PoolError, "must be reset", client.StepOrBegin({0, 0, 0, 0, 0, 0}, begins));
  client.StepOrBegin({0, 0, 0, 0, 0, 0}, {0, 1, 1, 0, 1, 0});
}

TEST(ColumnsThatNobodyWantsAreSkipped) {
  Client client(10, {.options = {{"episode_length", 2}},
                     .num_threads = 2,
                     .max_episode_steps = 0,
                     .padding = 0,
                     .info_keys = {"episode_reward"}});
  client.Reset();
  for (std::uint32_t env = 0; env < 10; ++env) client.actions->Set<std::int64_t>("action", env, 0, 0);
  const std::size_t reward = client.out->Column("reward"), sum = client.out->Column("episode_reward");
  test::Counter model;
  float expected_sum = 0;
  for (int step = 1; step <= 2; ++step) {
    client.Clear();
    Job& job = client.pool().Begin(Op::kStepAndReset);
    client.actions->BindTo(job.actions);
    client.out->BindTo(job.out);
    client.root->BindTo(job.root);
    job.out.base[reward] = nullptr;  // summed all the same
    job.root.base[sum] = nullptr;
    client.pool().Submit(job, Delivery::kAwaited, test::NeverInterrupted);
    CHECK_EQ(client.pool().Wait(job, test::NeverInterrupted), step == 2 ? 10u : 0u);
    model.Step(0);
    expected_sum += model.Reward();
    for (std::uint32_t env = 0; env < 10; ++env) {
      CHECK_EQ(client.out->Get<float>("episode_reward", env), expected_sum);
      CHECK(client.out->IsFilledWith(test::Tensors::kUntouched, reward, env));
      CHECK(client.root->IsFilledWith(test::Tensors::kUntouched, sum, env));
    }
  }
}

TEST(StepAndResetNeedsADoneColumn) {
  if (test::kThreadSanitizer) return;
  const int code = test::RunInChild(20, [] {  // since a pool that does not check crashes
    Client client(4, {.options = {{"episode_length", 1}}, .num_threads = 1});
    client.Reset();
    Job& job = client.pool().Begin(Op::kStepAndReset);
    for (std::uint32_t env = 0; env < 4; ++env) client.actions->Set<std::int64_t>("action", env, 0, 1);
    client.actions->BindTo(job.actions);
    client.out->BindTo(job.out);
    client.root->BindTo(job.root);
    job.out.base[client.out->Column("done")] = nullptr;
    const auto run = [&] {
      client.pool().Submit(job, Delivery::kAwaited, test::NeverInterrupted);
      client.pool().Wait(job, test::NeverInterrupted);
    };
    CHECK_THROWS(PoolError, "done", run());
    client.StepAndReset(SomeActions(4, 0));
    return 0;
  });
  CHECK_EQ(code, 0);
}

TEST(TwoPoolsDoNotMind) {
  Client a(30,
           {.options = {{"cost_ns", 3'000}, {"episode_length", 5}, {"truncate_at", 7}}, .num_threads = 3});
  Client b(20,
           {.options = {{"cost_ns", 3'000}, {"episode_length", 5}, {"truncate_at", 7}}, .num_threads = 3});
  Exercise(a, 20);
  Exercise(b, 20);
  Exercise(a, 20);
}

TEST(EnvsOfOneConfigurationShareItAndAreDestroyed) {
  CHECK_EQ(test::TheProbe().envs.load(), 0);
  {
    Client client(25, {.num_threads = 3});
    CHECK_EQ(test::TheProbe().envs.load(), 25);
  }
  CHECK_EQ(test::TheProbe().envs.load(), 0);
}

}  // namespace
}  // namespace torchrl_pool::core
