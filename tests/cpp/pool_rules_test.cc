// Who may do what when: what a pool refuses, and that it goes on as if nobody had asked.
#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "check.h"
#include "client.h"
#include "concurrency.h"
#include "fixture.h"
#include "held_up.h"
#include "pool.h"

namespace torchrl_pool::core {
namespace {

using test::Client;
using test::Mask;
using test::SomeActions;
using test::SomeMask;

std::unique_ptr<Pool> MakePool(const std::vector<std::shared_ptr<const Config>>& configs,
                               int num_threads = 2) {
  std::vector<EnvRequest> envs;
  for (const auto& config : configs) envs.push_back({config, 0});
  PoolOptions options;
  options.threads.num_threads = num_threads;
  options.layout.strict_actions = true;
  return Pool::Open(std::move(envs), options, test::NeverInterrupted);
}

TEST(RefusesAPoolWithoutEnvs) { CHECK_THROWS(StatusError, "", MakePool({})); }

TEST(RefusesEnvsThatDoNotFit) {
  CHECK_THROWS(StatusError, "'vector' different shapes",
               MakePool({test::KindsConfig(), test::KindsConfig({{"width", 3}})}));
}

TEST(AnyNumberOfThreadsWillDo) {
  for (const int threads : {-5, 0, 1, 3, 1'000}) {
    const auto pool = MakePool({test::CounterConfig(), test::CounterConfig()}, threads);
    CHECK(pool->num_threads() >= 1);
    CHECK(pool->num_threads() <= 2);
  }
}

TEST(RefusesASecondCallForAnEnvThatIsAtWork) {
  Client client(4, {.options = {{"gate", true}}});
  client.CheckedReset();
  const auto state = test::Save(client.pool(), 0);
  test::Threads threads;
  {
    const test::HeldUpStep held(client, threads);
    std::uint8_t rgb[6];
    for (int i = 0; i < 3; ++i) {
      for (const Op op : {Op::kStep, Op::kReset}) {
        Job& job = client.pool().Begin(op);
        client.actions->BindTo(job.actions);
        CHECK_THROWS(PoolError, "env 0 is in flight",
                     client.pool().Submit(job, Delivery::kAwaited, test::NeverInterrupted));
      }
      CHECK_THROWS(PoolError, "env 0 is in flight", test::Save(client.pool(), 0));
      CHECK_THROWS(PoolError, "env 0 is in flight", test::Load(client.pool(), 0, state));
      CHECK_THROWS(PoolError, "env 0 is in flight", test::Render(client.pool(), 0, rgb));
    }
  }
  threads.Join();
  client.CheckStepped(Op::kStep, SomeActions(4, 0), nullptr, 0, 0, 0);
  client.CheckedStep(Op::kStep, SomeActions(4, 1));
}

TEST(ThreadsThatRaceForEnvsGetThemOrAnError) {
  Client client(16, {.options = {{"cost_ns", 2'000}}, .num_threads = 3});
  client.CheckedReset();
  std::atomic<int> done{0}, refused{0};
  test::Threads threads;
  for (int i = 0; i < 3; ++i) {
    threads.Start([&] {
      test::Tensors actions(client.pool().layout().actions, 16);
      for (std::uint32_t env = 0; env < 16; ++env) actions.Set<std::int64_t>("action", env, 0, 1);
      for (int step = 0; step < test::Scaled(2'000); ++step) {
        try {
          Job& job = client.pool().Begin(Op::kStep);
          actions.BindTo(job.actions);
          client.out->BindTo(job.out);
          client.pool().Submit(job, Delivery::kAwaited, test::NeverInterrupted);
          client.pool().Wait(job, test::NeverInterrupted);
          done.fetch_add(1);
          if (step % 16 == 0) test::Save(client.pool(), 3);
        } catch (const PoolError&) {
          refused.fetch_add(1);
        }
      }
    });
  }
  threads.Join();
  CHECK(done.load() > 0);
  // Every call that went through stepped every env once.
  for (int i = 0; i < done.load(); ++i) {
    for (auto& model : client.models) model.Step(1);
  }
  client.CheckedStep(Op::kStep, SomeActions(16, 2));
}

TEST(ACallMayMoveFromThreadToThread) {
  Client client(12, {.options = {{"cost_ns", 3'000}}, .num_threads = 3});
  client.CheckedReset();
  for (int step = 0; step < 20; ++step) {
    test::Threads threads;
    threads.Start([&] { client.CheckedStep(Op::kStep, SomeActions(12, step)); });
    threads.Join();
  }
}

}  // namespace
}  // namespace torchrl_pool::core
