// States and pictures are intervals of their own: who wants the env waits, and nobody else does.
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "check.h"
#include "client.h"
#include "concurrency.h"
#include "fixture.h"
#include "pool.h"

namespace torchrl_pool::core {
namespace {

using test::Client;
using test::IsInterrupted;
using test::Mask;
using test::SomeActions;
using test::TheProbe;

const test::Options kSlowPictures = {{"render_us", std::int64_t{400'000}}};
const Mask kOthers = {0, 1, 1}, kLast = {0, 0, 1};

// In another thread, of env 0: until it is destroyed.
class Picture {
 public:
  explicit Picture(Client& client) {
    threads_.Start([&client] {
      std::uint8_t rgb[6];
      test::Render(client.pool(), 0, rgb);
    });
    CHECK(test::Eventually([] { return TheProbe().rendering.load(); }));
  }
  ~Picture() { threads_.Join(); }

 private:
  test::Threads threads_;
};

TEST(OtherEnvsGoOnWhileOneIsLookedAt) {
  Client client(3, {.options = kSlowPictures, .num_threads = 2});
  client.CheckedReset();
  const Picture picture(client);
  for (int step = 0; step < 20; ++step) client.CheckedStep(Op::kStep, SomeActions(3, step), &kOthers);
  const auto state = test::Save(client.pool(), 1);
  test::Load(client.pool(), 1, state);
  CHECK(TheProbe().rendering.load());
}

TEST(WhoWantsTheEnvWaits) {
  Client client(3, {.options = kSlowPictures, .num_threads = 2});
  client.CheckedReset();
  for (int way = 0; way < 3; ++way) {
    const Picture picture(client);
    if (way == 0) client.CheckedStep(Op::kStep, SomeActions(3, 0));
    if (way == 1) client.CheckedReset();
    if (way == 2) test::Load(client.pool(), 0, test::Save(client.pool(), 0));
    CHECK(!TheProbe().rendering.load());
  }
}

TEST(WaitingForAnEnvThatIsLookedAtMayBeInterrupted) {
  Client client(3, {.options = kSlowPictures, .num_threads = 2});
  client.CheckedReset();
  {
    const Picture picture(client);
    client.interrupted = test::AlwaysInterrupted;
    CHECK(IsInterrupted([&] { client.Step(SomeActions(3, 0)); }));
    CHECK(IsInterrupted([&] { test::Save(client.pool(), 0, test::AlwaysInterrupted); }));
    CHECK(IsInterrupted([&] { client.pool().Close(test::AlwaysInterrupted); }));
    CHECK(TheProbe().rendering.load());
  }
  client.interrupted = test::NeverInterrupted;
  client.CheckedStep(Op::kStep, SomeActions(3, 1));  // nothing has changed
}

TEST(AnEnvInFlightIsNotLookedAt) {
  Client client(3, {.num_threads = 2});
  client.CheckedReset();
  const Pool::ExclusiveAccess access(client.pool(), {0, 1}, test::NeverInterrupted);
  CHECK_THROWS(PoolError, "while it is in a call", client.Step(SomeActions(3, 0)));
  CHECK_THROWS(PoolError, "while it is in a call", test::Save(client.pool(), 1));
  client.CheckedStep(Op::kStep, SomeActions(3, 1), &kLast);
}

TEST(APictureIsInterruptedAndTheEnvIsAsItWas) {
  Client client(3, {.options = kSlowPictures, .num_threads = 2});
  client.CheckedReset();
  const auto rgb = std::make_shared<std::array<std::uint8_t, 6>>();
  const std::uint32_t env = 0;
  CHECK(IsInterrupted(
      [&] { client.pool().Render(std::span(&env, 1), {rgb->data()}, rgb, test::AlwaysInterrupted); }));
  CHECK(TheProbe().rendering.load());
  client.CheckedStep(Op::kStep, SomeActions(3, 0));  // when the picture is drawn
  CHECK(!TheProbe().rendering.load());
}

TEST(APictureThatTakesTooLongFailsItsEnv) {
  Client client(3,
                {.options = kSlowPictures, .num_threads = 2, .step_timeout = std::chrono::milliseconds(60)});
  client.CheckedReset();
  const auto rgb = std::make_shared<std::array<std::uint8_t, 6>>();
  const std::uint32_t env = 1;
  CHECK_THROWS(EnvFailure, "failed when its state was saved, loaded or drawn",
               client.pool().Render(std::span(&env, 1), {rgb->data()}, rgb, test::NeverInterrupted));
  CHECK_THROWS(PoolError, "env 1 hangs", client.Reset());
  CHECK(test::Eventually([] { return !TheProbe().rendering.load(); }));
  CHECK(test::Eventually([&] {  // its thread has ended
    try {
      client.CheckedReset();
      return true;
    } catch (const PoolError&) {
      return false;
    }
  }));
}

TEST(StatesOfManyEnvsAreOneCall) {
  Client client(5, {.num_threads = 2});
  client.CheckedReset();
  const std::vector<std::uint32_t> some = {0, 2, 4};
  const auto states = client.pool().Save(some);
  const auto saved = client.models;
  for (int step = 0; step < 3; ++step) client.CheckedStep(Op::kStep, SomeActions(5, step));
  client.pool().Load(some, states);
  for (const std::uint32_t env : some) client.models[env] = saved[env];
  client.CheckedStep(Op::kStep, SomeActions(5, 3));
  auto damaged = client.pool().Save(some);
  const auto before = client.models;
  client.CheckedStep(Op::kStep, SomeActions(5, 4));
  damaged[1].pop_back();
  CHECK_THROWS(StatusError, "", client.pool().Load(some, damaged));  // the others' states are taken
  for (const std::uint32_t env : {0u, 4u}) client.models[env] = before[env];
  client.CheckedStep(Op::kStep, SomeActions(5, 5));
}

// Threads that step, look and load as they like: each env is in one pair of hands.
TEST(LooksAndStepsOfManyThreads) {
  Client client(4, {.options = {{"cost_ns", std::int64_t{2'000}}}, .num_threads = 3});
  client.CheckedReset();
  const auto state = test::Save(client.pool(), 0);
  std::atomic<int> refused{0};
  test::Threads threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.Start([&, thread] {
      for (int round = 0; round < test::Scaled(2'000); ++round) {
        const auto env = static_cast<std::uint32_t>(round * 7 + thread) % 4;
        try {
          if (thread == 0) {
            client.Step(SomeActions(4, round));
          } else if (thread == 1) {
            std::uint8_t rgb[6];
            test::Render(client.pool(), env, rgb);
          } else if (thread == 2) {
            test::Load(client.pool(), env, state);
          } else {
            test::Save(client.pool(), env);
          }
        } catch (const PoolError&) {
          ++refused;  // it is in flight
        }
      }
    });
  }
  threads.Join();
  client.CheckedReset();
}

}  // namespace
}  // namespace torchrl_pool::core
