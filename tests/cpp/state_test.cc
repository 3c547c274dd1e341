// Saving and restoring simulators, and pictures of them.
#include <algorithm>
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
using test::ClientOptions;
using test::Mask;
using test::SomeActions;
using Bytes = std::vector<std::uint8_t>;

TEST(ARestoredEnvGoesOnFromThere) {
  Client client(6, {.options = {{"episode_length", 7}}, .num_threads = 2, .max_episode_steps = 5});
  client.CheckedReset();
  for (int step = 0; step < 3; ++step) client.CheckedStep(Op::kStep, SomeActions(6, step), nullptr, 7);
  const Bytes state = test::Save(client.pool(), 2);
  const test::Counter model = client.models[2];
  client.CheckedStep(Op::kStep, SomeActions(6, 3), nullptr, 7);
  test::Load(client.pool(), 2, state);
  client.models[2] = model;
  CHECK_EQ(test::Save(client.pool(), 2), state);
  // The time limit goes on from there too: checked steps know it.
  client.CheckedStep(Op::kStep, SomeActions(6, 4), nullptr, 7);
  client.CheckedStep(Op::kStep, SomeActions(6, 5), nullptr, 7);
}

TEST(AStateOfAnotherChoiceOfSumsIsRefused) {
  Client with(1, {.options = {},
                  .num_threads = 1,
                  .max_episode_steps = 0,
                  .padding = 0,
                  .info_keys = {"episode_reward"}});
  Client without(1, {.num_threads = 1});
  with.Reset();
  without.Reset();
  CHECK_THROWS(StatusError, "episode_reward", test::Load(without.pool(), 0, test::Save(with.pool(), 0)));
  CHECK_THROWS(StatusError, "episode_reward", test::Load(with.pool(), 0, test::Save(without.pool(), 0)));
}

TEST(TruncatedAndForeignStatesAreRefusedAndChangeNothing) {
  Client client(2, {.num_threads = 1});
  client.CheckedReset();
  client.CheckedStep(Op::kStep, SomeActions(2, 0));
  const Bytes good = test::Save(client.pool(), 0);
  const Bytes before = test::Save(client.pool(), 1);
  const auto refused = [&](const Bytes& bytes, const char* message) {
    CHECK_THROWS(StatusError, message, test::Load(client.pool(), 1, bytes));
    CHECK_EQ(test::Save(client.pool(), 1), before);
  };
  for (std::size_t size = 0; size < good.size(); ++size) {
    refused({good.begin(), good.begin() + static_cast<std::ptrdiff_t>(size)}, "");
  }
  Bytes longer = good;
  longer.push_back(0);
  refused(longer, "too long");
  refused(Bytes(good.size()), "no state that get_state returned");
  refused(Bytes(10'000, 0xff), "no state");
  // Every byte of the header that is wrong, sizes of 2^64 - 1 among them.
  const std::size_t header = good.size() - sizeof(test::Counter);
  for (std::size_t i = 0; i < header; ++i) {
    const bool elapsed = i + 16 >= header && i + 8 < header;  // any number of steps will do
    if (elapsed) continue;
    Bytes bad = good;
    bad[i] ^= 0xff;
    refused(bad, "");
  }
  Bytes huge = good;
  std::fill_n(huge.begin() + std::strlen("torchrl_pool state 2"), 8, std::uint8_t{0xff});
  refused(huge, "truncated");
  client.CheckedStep(Op::kStep, SomeActions(2, 1));
}

TEST(AStateWithAnImpossibleNumberOfStepsIsRefused) {
  Client client(1, {.num_threads = 1});
  client.CheckedReset();
  const Bytes good = test::Save(client.pool(), 0);
  const std::size_t at = std::strlen("torchrl_pool state 2") + 8 + std::strlen("Counter-v0");
  for (const std::int64_t steps : {INT64_MAX, INT64_MIN, std::int64_t{-1}}) {
    Bytes bad = good;
    std::memcpy(bad.data() + at, &steps, sizeof steps);
    CHECK_THROWS(StatusError, "steps", test::Load(client.pool(), 0, bad));
  }
  client.CheckedStep(Op::kStep, SomeActions(1, 0));
}

TEST(AStateOfAnotherVersionIsRefusedWithAReason) {
  Client client(1, {.num_threads = 1});
  client.Reset();
  Bytes old = test::Save(client.pool(), 0);
  old[std::strlen("torchrl_pool state ")] = '1';
  CHECK_THROWS(StatusError, "in format 1; this one reads format 2", test::Load(client.pool(), 0, old));
}

TEST(AnEnvThatWasNeverResetTakesAState) {
  Client client(1, {.num_threads = 1});
  client.CheckedReset();
  const Bytes state = test::Save(client.pool(), 0);
  Client fresh(1, {.num_threads = 1});
  test::Load(fresh.pool(), 0, state);
  fresh.models = client.models;
  fresh.CheckedStep(Op::kStep, SomeActions(1, 0));
}

// Its next episode is drawn from the same stream as if nothing had been tried.
TEST(ARefusedStateLeavesAnEnvThatIsNotReadyAsItWas) {
  Client client(2, {.options = {{"fail_on_action", std::int64_t{3}}}, .num_threads = 1});
  client.CheckedReset();
  Bytes state = test::Save(client.pool(), 0);
  CHECK_THROWS(EnvFailure, "", client.Step({3, 0}));  // env 0 has failed
  state.pop_back();
  CHECK_THROWS(StatusError, "", test::Load(client.pool(), 0, state));
  client.CheckedReset(nullptr, false);  // without a seed: resets are counted from the last one
}

TEST(OnlyAnEnvInAnEpisodeHasAState) {
  Client client(2, {.options = {{"fail_on_action", 9}}, .num_threads = 1});
  std::uint8_t rgb[6];
  CHECK_THROWS(PoolError, "reset it first", test::Save(client.pool(), 0));
  CHECK_THROWS(PoolError, "reset it first", test::Render(client.pool(), 0, rgb));
  client.CheckedReset();
  const Bytes state = test::Save(client.pool(), 0);
  CHECK_THROWS(EnvFailure, "env 0", client.Step({9, 1}));
  client.models[1].Step(1);
  CHECK_THROWS(PoolError, "reset it first", test::Save(client.pool(), 0));
  CHECK_THROWS(PoolError, "reset it first", test::Render(client.pool(), 0, rgb));
  // A state that is refused does not bring a failed env back, one that is not does.
  CHECK_THROWS(StatusError, "", test::Load(client.pool(), 0, Bytes(state.begin(), state.end() - 1)));
  CHECK_THROWS(PoolError, "has failed", client.Step({1, 1}));
  test::Load(client.pool(), 0, state);
  client.CheckedStep(Op::kStep, {2, 2});
}

TEST(RenderingATaskWithoutPicturesIsRefused) {
  if (test::kThreadSanitizer) return;
  const int code = test::RunInChild(20, [] {  // since a pool that does not check crashes
    const auto owned = Pool::Open({EnvRequest{test::KindsConfig(), 0}}, {}, test::NeverInterrupted);
    Pool& pool = *owned;
    Job& job = pool.Begin(Op::kReset);
    pool.Submit(job, Delivery::kAwaited, test::NeverInterrupted);
    pool.Wait(job, test::NeverInterrupted);
    std::uint8_t rgb[6];
    CHECK_THROWS(StatusError, "cannot be rendered", test::Render(pool, 0, rgb));
    return 0;
  });
  CHECK_EQ(code, 0);
}

}  // namespace
}  // namespace torchrl_pool::core
