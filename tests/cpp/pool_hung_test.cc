// Simulators that do not come back: given up after a time, and left behind when the pool is closed.
#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

#include "check.h"
#include "client.h"
#include "concurrency.h"
#include "fixture.h"
#include "held_up.h"
#include "pool.h"
#include "time_spent.h"

namespace torchrl_pool::core {
namespace {

using namespace std::chrono_literals;
using test::Client;
using test::ClosedGate;
using test::CounterConfig;
using test::IsInterrupted;
using test::Mask;
using test::NeverInterrupted;
using test::SomeActions;

// Longer than a thread of a busy machine is kept from running.
constexpr auto kTimeout = 700ms;

// Of these envs the one that waits at the gate is number 2.
std::vector<std::shared_ptr<const Config>> OneOfFive(const test::Options& options = {{"gate", true}}) {
  std::vector<std::shared_ptr<const Config>> configs(5, CounterConfig());
  configs[2] = CounterConfig(options);
  return configs;
}
const Mask kOthers = {1, 1, 0, 1, 1}, kHung = {0, 0, 1, 0, 0};

template <class Function>
EnvFault TheFault(Function&& function) {
  try {
    function();
  } catch (const EnvFailure& e) {
    CHECK_EQ(e.faults.size(), 1u);
    return e.faults[0];
  }
  CHECK(false && "an env has failed");
  return {};
}

void CheckHung(const EnvFault& fault, std::int64_t step) {
  CHECK_EQ(fault.env_index, 2);
  CHECK_EQ(fault.step, step);
  CHECK(fault.hung);
  CHECK(fault.message.find("it has not come back within 0.7 s") != std::string::npos);
}

TEST(TimeInWhichNoThreadLooksCounts) {
  using Clock = TimeSpent::Clock;
  const auto second = std::chrono::seconds(1);
  const Clock::time_point start{};
  TimeSpent stopped, polled;
  stopped.Begin(start);
  CHECK(!stopped.Exceeds(10 * second, start + 500 * second, start));  // a thread has waited all the time
  polled.Begin(start);
  CHECK(!polled.Exceeds(10 * second, start + 500 * second, start + 500 * second));  // it may just come back
  CHECK(polled.Exceeds(10 * second, start + 510 * second, start + 510 * second));
  TimeSpent watched;
  watched.Begin(start);
  for (int i = 1; i <= 20; ++i) CHECK(!watched.Exceeds(10 * second, start + i * second / 2, start));
  CHECK(watched.Exceeds(10 * second, start + 11 * second, start));
}

TEST(TheOthersGoOnAndAResetRevives) {
  for (const int threads : {1, 3}) {
    for (const Op op : {Op::kStep, Op::kStepAndReset}) {
      Client client(OneOfFive(), {.num_threads = threads, .step_timeout = kTimeout});
      client.CheckedReset();
      client.CheckedStep(op, SomeActions(5, 0));
      {
        const ClosedGate gate;
        client.Clear();
        CheckHung(TheFault([&] {
                    op == Op::kStep ? client.Step(SomeActions(5, 1))
                                    : void(client.StepAndReset(SomeActions(5, 1)));
                  }),
                  2);
        for (std::uint32_t env = 0; env < 5; ++env) {
          if (env == 2) continue;
          client.models[env].Step(SomeActions(5, 1)[env]);
          client.CheckRow(*client.out, env, true, false, false);
        }
        for (int step = 0; step < 20; ++step) client.CheckedStep(op, SomeActions(5, step), &kOthers);
        CHECK_THROWS(PoolError, "env 2 has failed", client.Step(SomeActions(5, 0)));
        CHECK_THROWS(PoolError, "env 2 hangs", client.Reset());
        CHECK_THROWS(PoolError, "env 2 hangs", client.Reset(&kHung));
        CHECK_THROWS(PoolError, "env 2 hangs", test::Save(client.pool(), 2));
        client.CheckedReset(&kOthers);
      }
      CHECK(test::Eventually([&] {
        try {
          client.Reset(&kHung);
          return true;
        } catch (const PoolError&) {  // not yet back
          return false;
        }
      }));
      client.CheckedReset();
      for (int step = 0; step < 20; ++step) client.CheckedStep(op, SomeActions(5, step));
      CHECK(client.Retire());
    }
  }
}

TEST(WhatAHungThreadMayWriteToIsNotReused) {
  Client client(OneOfFive(), {.num_threads = 2, .step_timeout = kTimeout});
  client.CheckedReset();
  const std::weak_ptr<test::Tensors> out = client.out;
  {
    const ClosedGate gate;
    CheckHung(TheFault([&] { client.Step(SomeActions(5, 0)); }), 1);
    client.Clear();
    client.Step(SomeActions(5, 1), &kOthers);
    CHECK(!out.expired());
  }
  CHECK(test::Eventually([&] {
    client.Step(SomeActions(5, 2), &kOthers);
    return out.expired();
  }));
  CHECK(client.out->IsUntouched(2));
}

TEST(AHungResetIsGivenUpToo) {
  Client client(OneOfFive(), {.num_threads = 2, .step_timeout = kTimeout});
  {
    const ClosedGate gate;
    CheckHung(TheFault([&] { client.Reset(); }), EnvFault::kInReset);
    client.CheckedReset(&kOthers);
    client.CheckedStep(Op::kStep, SomeActions(5, 0), &kOthers);
  }
  client.Retire();
}

TEST(AHungPoolIsClosedAndLeftBehind) {
  const auto client =
      std::make_unique<Client>(OneOfFive(), test::ClientOptions{.num_threads = 2, .step_timeout = kTimeout});
  client->CheckedReset();
  const std::int64_t others = test::TheProbe().envs.load() - 5;
  {
    const ClosedGate gate;
    CheckHung(TheFault([&] { client->Step(SomeActions(5, 0)); }), 1);
    client->pool().Close();
    CHECK_EQ(test::TheProbe().envs.load(), others + 1);  // the one that hangs
    CHECK_THROWS(PoolError, "closed", client->Reset());
    CHECK(!client->Retire());
    CHECK_EQ(test::TheProbe().envs.load(), others + 1);
  }
}

TEST(AnEnvThatHangsWhileThePoolIsClosedIsGivenUpThen) {
  Client client(OneOfFive(), {.num_threads = 2, .step_timeout = kTimeout});
  client.CheckedReset();
  {
    const ClosedGate gate;
    client.interrupted = ClosedGate::HoldsAThread;
    CHECK(IsInterrupted([&] { client.Step(SomeActions(5, 0)); }));
    CHECK(!client.Retire());
  }
}

TEST(ACallThatFollowsAnInterruptedOneGivesUpWhatHangs) {
  Client client(OneOfFive(), {.num_threads = 2, .step_timeout = kTimeout});
  client.CheckedReset();
  {
    const ClosedGate gate;
    client.interrupted = ClosedGate::HoldsAThread;
    CHECK(IsInterrupted([&] { client.Step(SomeActions(5, 0)); }));
    client.interrupted = NeverInterrupted;
    client.CheckedReset(&kOthers);
    client.CheckedStep(Op::kStep, SomeActions(5, 1), &kOthers);
    CHECK_THROWS(PoolError, "env 2 hangs", client.Reset());
  }
}

TEST(APoolWhoseCreationHangsIsRefused) {
  const std::int64_t others = test::TheProbe().envs.load();
  const EnvFault fault = TheFault(
      [] { Client(OneOfFive({{"create_us", 3'000'000}}), {.num_threads = 3, .step_timeout = kTimeout}); });
  CheckHung(fault, EnvFault::kInCreation);
  CHECK(test::Eventually([&] { return test::TheProbe().envs.load() == others + 1; }));  // it has come back
}

TEST(AHungEnvInFlightIsReceivedAsAFailure) {
  for (const bool alone : {false, true}) {
    Client client(OneOfFive(), {.num_threads = 2, .step_timeout = kTimeout});
    Batch outputs = test::MakeBatch(client.pool().layout().outputs.size());
    Batch roots = outputs;
    client.out->BindTo(outputs);
    client.root->BindTo(roots);
    client.pool().PrepareAsync(outputs, roots);
    client.CheckedReset();
    const auto send = [&](std::vector<std::uint32_t> envs) {
      const std::vector<std::int64_t> actions(envs.size(), 3);
      const auto* bytes = reinterpret_cast<const std::byte*>(actions.data());
      test::Send(client.pool(), Op::kStep, envs, &bytes, alone, NeverInterrupted);
    };
    const auto receive = [&](std::uint32_t env) {
      const auto received = alone ? client.pool().ReceiveAlone(Op::kStep, env, {}, NeverInterrupted)
                                  : client.pool().Receive(Op::kStep, 1, 1, {}, NeverInterrupted);
      const std::vector<std::byte*> nowhere(client.pool().layout().outputs.size());
      test::Take(client.pool(), *received, nowhere.data(), nowhere.data());
    };
    {
      const ClosedGate gate;
      send({2});
      for (int step = 0; step < 20; ++step) {
        if (alone) {
          send({0});
          receive(0);
        }
      }
      CheckHung(TheFault([&] { receive(2); }), 1);
      CHECK_THROWS(PoolError, "env 2", send({2}));
      for (std::uint32_t env : {0u, 1u, 3u, 4u}) {
        send({env});
        receive(env);
      }
    }
    CHECK(test::Eventually([&] {
      try {
        client.Reset(&kHung);
        return true;
      } catch (const PoolError&) {
        return false;
      }
    }));
    send({2});
    receive(2);
  }
}

TEST(AnEnvThatHungAndHasComeBackTakesAState) {
  Client client(OneOfFive(), {.num_threads = 2, .step_timeout = kTimeout});
  client.CheckedReset();
  const auto state = test::Save(client.pool(), 2);
  {
    const ClosedGate gate;
    CheckHung(TheFault([&] { client.Step(SomeActions(5, 0)); }), 1);
    CHECK_THROWS(PoolError, "env 2 hangs", test::Load(client.pool(), 2, state));
  }
  CHECK(test::Eventually([&] {
    try {
      test::Load(client.pool(), 2, state);
      return true;
    } catch (const PoolError&) {
      return false;
    }
  }));
  client.CheckedReset();
}

// Without a time limit too, whoever closes a pool may stop waiting for it.
TEST(ClosingMayBeInterrupted) {
  const std::int64_t others = test::TheProbe().envs.load();
  Client client(6, {.options = {{"gate", true}}, .num_threads = 2});
  client.CheckedReset();
  {
    const ClosedGate gate;
    client.interrupted = ClosedGate::HoldsAThread;
    CHECK(IsInterrupted([&] { client.Step(SomeActions(6, 0)); }));
    CHECK(IsInterrupted([&] { client.pool().Close([] { return true; }); }));
    CHECK_EQ(test::TheProbe().envs.load(), others + 6);  // a thread may be in any of them
    CHECK(!client.Retire());
  }
}

TEST(ClosingDuringAnotherThreadsCallMayBeInterrupted) {
  Client client(4, {.options = {{"gate", true}}, .num_threads = 2});
  client.CheckedReset();
  test::Threads threads;
  {
    test::HeldUpStep held(client, threads);
    CHECK(IsInterrupted([&] { client.pool().Close([] { return true; }); }));
  }
  threads.Join();
  client.CheckStepped(Op::kStep, SomeActions(4, 0), nullptr, 0, 0, 0);
  client.CheckedStep(Op::kStep, SomeActions(4, 1));  // nothing has changed
}

TEST(ATimeLimitChangesNoResult) {
  for (const int threads : {1, 3}) {
    Client client(30, {.options = {{"episode_length", 5}, {"cost_ns", 1'000}},
                       .num_threads = threads,
                       .step_timeout = 20s});
    client.CheckedReset();
    for (int step = 0; step < test::Scaled(500); ++step) {
      client.CheckedStep(Op::kStepAndReset, SomeActions(30, step), nullptr, 5);
    }
  }
}

}  // namespace
}  // namespace torchrl_pool::core
