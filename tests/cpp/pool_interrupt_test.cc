// Waits that are given up while simulators are still at work.
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

using test::AlwaysInterrupted;
using test::Client;
using test::ClosedGate;
using test::IsInterrupted;
using test::Mask;
using test::SomeActions;
using test::Tensors;

std::atomic<bool>* begun_by_a_call = nullptr;

// Interrupts a step while some of its envs are held up. The caller may be lucky and get all work done before
// another thread takes some of it: then it tries again.
void InterruptAStep(Client& client, const Mask* mask = nullptr) {
  client.interrupted = ClosedGate::HoldsAThread;
  while (!IsInterrupted([&] { client.Step(SomeActions(client.size(), 0), mask); })) {
  }
  client.interrupted = test::NeverInterrupted;
}

TEST(EnvsOfAnInterruptedCallMustBeReset) {
  Client client(6, {.options = {{"gate", true}}, .num_threads = 3});
  client.CheckedReset();
  {
    const ClosedGate gate;
    InterruptAStep(client);
  }
  CHECK_THROWS(PoolError, "a call was interrupted while env 0 was at work", client.Step(SomeActions(6, 0)));
  CHECK_THROWS(PoolError, "a call was interrupted while env 0 was at work",
               client.StepAndReset(SomeActions(6, 0)));
  const Mask last = {0, 0, 0, 0, 0, 1};
  client.CheckedReset(&last);
  client.CheckedStep(Op::kStep, SomeActions(6, 1), &last);
  CHECK_THROWS(PoolError, "env 0", client.Step(SomeActions(6, 0)));
  client.CheckedReset();
  for (int step = 0; step < 20; ++step) client.CheckedStep(Op::kStepAndReset, SomeActions(6, step));
}

TEST(WhatFailsMeanwhileIsAsAnInterrupt) {
  Client client(6, {.num_threads = 3});
  client.CheckedReset();
  client.meanwhile = [] { throw Interrupted(); };
  // The first step of a kind goes to the threads, whatever it costs.
  CHECK(IsInterrupted([&] { client.Step(SomeActions(6, 0)); }));
  client.meanwhile = nullptr;
  CHECK_THROWS(PoolError, "a call was interrupted while env 0 was at work", client.Step(SomeActions(6, 0)));
  client.CheckedReset();
  for (int step = 0; step < 20; ++step) client.CheckedStep(Op::kStepAndReset, SomeActions(6, step));
}

TEST(OnlyTheEnvsOfTheCallMustBeReset) {
  Client client(6, {.options = {{"gate", true}}, .num_threads = 2});
  client.CheckedReset();
  const Mask first = {1, 1, 1, 0, 0, 0}, second = {0, 0, 0, 1, 1, 1};
  {
    const ClosedGate gate;
    InterruptAStep(client, &first);
  }
  client.CheckedStep(Op::kStep, SomeActions(6, 1), &second);
  CHECK_THROWS(PoolError, "env 0", client.Step(SomeActions(6, 1), &first));
}

TEST(MemoryLivesUntilTheLastThreadIsDone) {
  Client client(6, {.options = {{"gate", true}}, .num_threads = 3});
  client.CheckedReset();
  const std::weak_ptr<Tensors> actions = client.actions, out = client.out;
  {
    const ClosedGate gate;
    InterruptAStep(client);
    CHECK(!actions.expired() && !out.expired());
    test::SleepMs(30);
    CHECK(!actions.expired() && !out.expired());
  }
  client.CheckedReset();
  CHECK(actions.expired() && out.expired());
}

TEST(TheNextCallWaitsForTheOldOneAndCanBeInterruptedToo) {
  Client client(4, {.options = {{"gate", true}}, .num_threads = 2});
  client.CheckedReset();
  std::uint8_t rgb[6];
  {
    const ClosedGate gate;
    InterruptAStep(client);
    const std::weak_ptr<Tensors> out = client.out;
    client.interrupted = AlwaysInterrupted;
    for (int i = 0; i < 3; ++i) {
      CHECK(IsInterrupted([&] { client.Reset(); }));
      CHECK(IsInterrupted([&] { test::Save(client.pool(), 0, AlwaysInterrupted); }));
      CHECK(IsInterrupted([&] { test::Load(client.pool(), 0, {}, AlwaysInterrupted); }));
      CHECK(IsInterrupted([&] { test::Render(client.pool(), 0, rgb, AlwaysInterrupted); }));
    }
    client.interrupted = test::NeverInterrupted;
  }
  client.CheckedReset();
  client.CheckedStep(Op::kStep, SomeActions(4, 0));
}

TEST(ACallThatHelpsIsInterruptedToo) {
  Client client(12, {.options = {{"gate", true}, {"cost_ns", 200'000}}, .num_threads = 3});
  client.CheckedReset();
  // Until the pool knows what a step costs, and the caller takes part.
  for (int step = 0; step < 20; ++step) client.CheckedStep(Op::kStep, SomeActions(12, step));
  {
    const ClosedGate gate;
    InterruptAStep(client);
  }
  client.CheckedReset();
  client.CheckedStep(Op::kStep, SomeActions(12, 0));
}

TEST(ACallWithoutOtherThreadsIsInterruptedToo) {
  Client client(40, {.options = {{"cost_ns", 2'000'000}}, .num_threads = 1});
  client.CheckedReset();
  client.CheckedStep(Op::kStep, SomeActions(40, 0));
  client.interrupted = AlwaysInterrupted;
  CHECK(IsInterrupted([&] { client.Step(SomeActions(40, 1)); }));
  client.interrupted = test::NeverInterrupted;
  CHECK_THROWS(PoolError, "interrupted", client.Step(SomeActions(40, 1)));
  client.CheckedReset();
}

TEST(AnInterruptedResetIsNoReset) {
  Client client(6, {.options = {{"gate", true}}, .num_threads = 2});
  {
    const ClosedGate gate;
    client.interrupted = ClosedGate::HoldsAThread;
    while (!IsInterrupted([&] { client.Reset(); })) {
    }
    client.interrupted = test::NeverInterrupted;
  }
  CHECK_THROWS(PoolError, "interrupted", client.Step(SomeActions(6, 0)));
  client.CheckedReset();
  client.CheckedStep(Op::kStep, SomeActions(6, 0));
}

TEST(AFailureInAnInterruptedCallIsForgotten) {
  std::vector<std::shared_ptr<const Config>> configs(6, test::CounterConfig({{"gate", true}}));
  configs[0] = test::CounterConfig({{"fail_at_step", 1}});
  Client client(configs, {.num_threads = 2});
  client.Reset();
  {
    const ClosedGate gate;
    client.interrupted = [] { return test::TheProbe().at_gate.load() == 2; };
    CHECK(IsInterrupted([&] { client.Step(SomeActions(6, 0)); }));
    client.interrupted = test::NeverInterrupted;
  }
  client.CheckedReset();
  const Mask others = {0, 1, 1, 1, 1, 1};
  client.CheckedStep(Op::kStep, SomeActions(6, 0), &others);
}

TEST(ALoadedStateReplacesAReset) {
  Client client(3, {.options = {{"gate", true}}, .num_threads = 2});
  client.CheckedReset();
  client.CheckedStep(Op::kStep, SomeActions(3, 0));
  std::vector<std::vector<std::uint8_t>> states;
  for (std::uint32_t env = 0; env < 3; ++env) states.push_back(test::Save(client.pool(), env));
  {
    const ClosedGate gate;
    InterruptAStep(client);
  }
  CHECK(test::Eventually([] { return test::TheProbe().at_gate.load() == 0; }));
  for (std::uint32_t env = 0; env < 3; ++env) {
    CHECK(test::Eventually([&] {
      try {
        test::Load(client.pool(), env, states[env]);
        return true;
      } catch (const PoolError&) {  // still at work
        return false;
      }
    }));
  }
  client.CheckedStep(Op::kStep, SomeActions(3, 1));
}

TEST(ACallThatHasFinishedIsNotInterrupted) {
  // The caller sleeps until the last env is done, and finds the interrupt when it wakes up. On a busy machine
  // it may wake up before that, because it is time to ask for interrupts: then once more.
  bool finished = false;
  for (int round = 0; round < 20 && !finished; ++round) {
    Client client(2, {.options = {{"sleep_us", 10'000}}, .num_threads = 2});
    client.CheckedReset();
    client.interrupted = AlwaysInterrupted;
    finished = !IsInterrupted([&] { client.CheckedStep(Op::kStep, SomeActions(2, 0)); });
  }
  CHECK(finished);
}

TEST(APoolIsInterruptedWhileItIsCreated) {
  std::vector<EnvRequest> envs(20, EnvRequest{test::CounterConfig({{"create_us", 30'000}}), 0});
  for (const int threads : {1, 3}) {
    PoolOptions options;
    options.threads.num_threads = threads;
    static std::atomic<int> asked;
    asked.store(0);  // a second interrupt would end the wait for the threads too
    CHECK(IsInterrupted([&] { Pool::Open(envs, options, [] { return asked.fetch_add(1) == 0; }); }));
    CHECK_EQ(test::TheProbe().envs.load(), 0);
  }
}

// As soon as an interrupted call has ended, another thread may begin the next one.
TEST(AnotherThreadMayTakeOverFromAnInterruptedCall) {
  for (int round = 0; round < test::Scaled(50); ++round) {
    Client client(4, {.options = {{"gate", true}}, .num_threads = 2});
    client.Reset();
    std::atomic<bool> begun{false};
    test::ClosedGate gate;
    test::Threads threads;
    threads.Start([&] {
      const Mask none(4);
      while (!begun.load()) {
      }
      while (true) {
        try {
          Job& job = client.pool().Begin(Op::kStep);
          client.pool().Select(job, none.data());
          client.pool().Submit(job, Delivery::kAwaited, test::NeverInterrupted);
          client.pool().Wait(job, test::NeverInterrupted);
          return;
        } catch (const PoolError&) {  // the other one is still running
        }
      }
    });
    begun_by_a_call = &begun;
    client.interrupted = [] {
      if (!ClosedGate::HoldsAThread()) return false;
      begun_by_a_call->store(true);
      test::TheProbe().gate_closed.store(false);
      return true;
    };
    CHECK(IsInterrupted([&] { client.Step(SomeActions(4, 0)); }));
    threads.Join();
  }
}

TEST(ClosingAnInterruptedPoolWaitsForItsEnvs) {
  Client client(6, {.options = {{"gate", true}}, .num_threads = 3});
  client.CheckedReset();
  const std::weak_ptr<Tensors> out = client.out;
  std::atomic<bool> closed{false};
  test::Threads threads;
  {
    const ClosedGate gate;
    InterruptAStep(client);
    threads.Start([&] {
      client.pool().Close();
      closed.store(true);
    });
    test::SleepMs(30);
    CHECK(!closed.load());
    CHECK(!out.expired());
    CHECK(test::TheProbe().envs.load() == 6);
  }
  threads.Join();
  CHECK(out.expired());
  CHECK_EQ(test::TheProbe().envs.load(), 0);
}

}  // namespace
}  // namespace torchrl_pool::core
