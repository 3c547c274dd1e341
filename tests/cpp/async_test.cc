// Envs in flight: sent and received by several threads.
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <tuple>
#include <utility>
#include <vector>

#include "check.h"
#include "client.h"
#include "concurrency.h"
#include "fixture.h"
#include "held_up.h"
#include "pool.h"

namespace torchrl_pool::core {
namespace {

using namespace std::chrono_literals;
using test::Client;
using test::NeverInterrupted;
using test::SomeActions;
using test::Threads;
using Envs = std::vector<std::uint32_t>;

// A client whose rows are those of the async calls.
class AsyncClient : public Client {
 public:
  // envs: how many, or the configuration of each.
  template <class Simulators>
  AsyncClient(const Simulators& envs, const test::ClientOptions& options) : Client(envs, options) {
    Batch outputs = test::MakeBatch(pool().layout().outputs.size());
    Batch roots = outputs;
    out->BindTo(outputs);
    root->BindTo(roots);
    pool().PrepareAsync(outputs, roots);
    CheckedReset();
  }

  void Send(const Envs& envs, const std::vector<std::int64_t>& chosen, bool alone = false,
            Op op = Op::kStepAndReset) {
    const auto* bytes = reinterpret_cast<const std::byte*>(chosen.data());
    test::Send(pool(), op, envs, &bytes, alone, NeverInterrupted);
  }
  std::optional<Outbox::Received> Receive(std::size_t least, std::size_t most = 0,
                                          std::optional<Outbox::Clock::duration> timeout = {}) {
    return pool().Receive(Op::kStepAndReset, least, most, timeout, NeverInterrupted);
  }
  // Rows of its own for a call: what is in flight writes to the others.
  void CheckedStepBeside(const std::vector<std::int64_t>& chosen, const test::Mask& mask) {
    const auto in_flight = std::pair(out, root);
    out = std::make_shared<test::Tensors>(pool().layout().outputs, size());
    root = std::make_shared<test::Tensors>(pool().layout().outputs, size());
    CheckedStep(Op::kStep, chosen, &mask);
    std::tie(out, root) = in_flight;
  }
  // The rows have been read where they were written.
  void Take(const Outbox::Received& received) {
    const std::vector<std::byte*> nowhere(pool().layout().outputs.size());
    test::Take(pool(), received, nowhere.data(), nowhere.data());
  }
};

TEST(EveryTransitionIsReceivedOnceAndInOrder) {
  constexpr std::uint32_t kNumEnvs = 24;
  constexpr int kSteps = 6'000;
  AsyncClient client(kNumEnvs, {.options = {{"episode_length", 7}}, .num_threads = 3});
  auto models = client.models;  // each used by the thread that holds the env
  Envs all;
  for (std::uint32_t env = 0; env < kNumEnvs; ++env) all.push_back(env);
  std::vector<std::int64_t> sent(kNumEnvs, 1);
  client.Send(all, sent);
  std::atomic<int> steps{0};
  Threads threads;
  for (int thread = 0; thread < 3; ++thread) {
    threads.Start([&, thread] {
      std::mt19937 rng(static_cast<unsigned>(thread));
      while (steps.load() < kSteps) {
        std::optional<Outbox::Received> received;
        try {
          received = client.Receive(1, 1 + rng() % 6);
        } catch (const PoolError&) {
          continue;  // the others hold all envs
        }
        CHECK(received.has_value());
        for (std::size_t k = 0; k < received->envs.size(); ++k) {
          const std::uint32_t env = received->envs[k];
          CHECK(k == 0 || received->envs[k - 1] < env);
          test::Counter& model = models[env];
          model.Step(sent[env]);
          const auto now = model.Observe();
          CHECK_EQ(client.out->Values<std::int64_t>("count", env),
                   (std::vector<std::int64_t>{now.begin(), now.end()}));
          const bool ended = model.steps == 7;
          CHECK_EQ(received->resets[k] != 0, ended);
          if (ended) model.Reset();
        }
        steps.fetch_add(static_cast<int>(received->envs.size()));
        std::vector<std::int64_t> chosen;
        for (const std::uint32_t env : received->envs) {
          sent[env] = static_cast<std::int64_t>(rng() % 10);
          chosen.push_back(sent[env]);
        }
        client.Take(*received);
        client.Send(received->envs, chosen);
      }
    });
  }
  threads.Join();
}

TEST(ARefusedSendChangesNothing) {
  AsyncClient client(4, {});
  CHECK_THROWS(StatusError, "env_index 4", client.Send({0, 4}, {1, 1}));
  CHECK_THROWS(StatusError, "named twice", client.Send({0, 1, 0}, {1, 1, 1}));
  CHECK_THROWS(StatusError, "env 2", client.Send({1, 2}, {1, 99}));
  client.Send({3}, {1});
  CHECK_THROWS(PoolError, "env 3 is in flight", client.Send({1, 3}, {1, 1}));
  CHECK_THROWS(PoolError, "env 3 is in flight", client.Step(SomeActions(4, 0)));
  const test::Mask others = {1, 1, 1, 0};
  client.CheckedStepBeside(SomeActions(4, 0), others);
  CHECK_THROWS(PoolError, "env 3 is in flight", test::Save(client.pool(), 3));
  test::Save(client.pool(), 1);
  CHECK_THROWS(PoolError, "only 1 are outstanding", client.Receive(2));
  const auto received = client.Receive(1);
  CHECK_EQ(received->envs, (Envs{3}));
  CHECK_THROWS(PoolError, "env 3 is in flight", client.Send({3}, {1}));  // its row is being read
  client.Take(*received);
  client.Send({0, 1, 2, 3}, {1, 2, 3, 4});
  CHECK_EQ(client.Receive(4)->envs, (Envs{0, 1, 2, 3}));
}

TEST(AnEnvSentByItselfIsReceivedByItself) {
  AsyncClient client(3, {});
  client.Send({1}, {5}, true);
  client.Send({0, 2}, {1, 2});
  CHECK_EQ(client.Receive(2)->envs, (Envs{0, 2}));
  CHECK_THROWS(PoolError, "only 0 are outstanding", client.Receive(1));
  const auto receive = [&](std::uint32_t env) {
    return client.pool().ReceiveAlone(Op::kStepAndReset, env, std::nullopt, NeverInterrupted);
  };
  CHECK_THROWS(PoolError, "env 0 was not sent alone", receive(0));
  CHECK_EQ(receive(1)->envs, (Envs{1}));
  CHECK_THROWS(PoolError, "env 1 was not sent alone", receive(1));
}

TEST(FailuresGoToTheReceiver) {
  AsyncClient client(3, {.options = {{"fail_on_action", 9}}});
  client.Send({0, 1, 2}, {1, 9, 2});
  CHECK_THROWS(EnvFailure, "env 1", client.Receive(3));
  CHECK_EQ(client.Receive(2)->envs, (Envs{0, 2}));
  CHECK_THROWS(PoolError, "env 1 has failed and must be reset", client.Send({1}, {1}));
  client.Send({1}, {}, false, Op::kReset);
  client.pool().Receive(Op::kReset, 1, 0, std::nullopt, NeverInterrupted);
}

// Two threads, envs 0 and 1 at home with one of them. Env 0 fails on action 9 while its chunk goes on in env
// 1, which waits at the gate. Whoever has seen the fault may reset env 0, and gets the result of that: not
// that of the chunk.
void FailInAChunk(AsyncClient& client, test::ClosedGate& gate) {
  CHECK(test::Eventually(test::ClosedGate::HoldsAThread));
  CHECK_THROWS(EnvFailure, "env 0", [&] {
    // The fault comes with the chunk, or before its end.
    if (client.Receive(1, 0, 100ms)) return;
    gate.Open();
    client.Receive(2);
  }());
}

std::vector<std::shared_ptr<const Config>> FourOfWhichOneFails(const test::Options& failing) {
  std::vector configs(4, test::CounterConfig());
  configs[0] = test::CounterConfig(failing);
  configs[1] = test::CounterConfig({{"gate", true}});
  return configs;
}

void LearnThatStepsAreCheap(AsyncClient& client) {  // so that chunks hold several
  for (int k = 0; k < 300; ++k) {
    client.Send({0, 1, 2, 3}, {1, 1, 1, 1});
    for (std::size_t got = 0; got < 4;) {
      const auto received = client.Receive(1);
      got += received->envs.size();
      client.Take(*received);
    }
  }
}

TEST(AResetAfterAFaultIsReceivedWhenItIsDone) {
  constexpr std::int64_t kResetUs = 400'000;
  AsyncClient client(FourOfWhichOneFails({{"fail_on_action", 9}, {"reset_us", kResetUs}}),
                     {.num_threads = 2});
  LearnThatStepsAreCheap(client);
  test::ClosedGate gate;
  test::TheProbe().exempt.store(std::thread::id());
  client.Send({0, 1}, {9, 1});
  FailInAChunk(client, gate);
  const auto start = std::chrono::steady_clock::now();
  client.Send({0}, {}, true, Op::kReset);
  test::SleepMs(20);
  gate.Open();
  const auto received = client.pool().ReceiveAlone(Op::kReset, 0, 20s, NeverInterrupted);
  CHECK(received.has_value() && received->faults.empty());
  CHECK(std::chrono::steady_clock::now() - start >= std::chrono::microseconds(kResetUs));
}

TEST(AStepAfterAFaultKeepsItsOwnResult) {
  AsyncClient client(FourOfWhichOneFails({{"fail_on_action", 9}, {"episode_length", 1}}), {.num_threads = 2});
  LearnThatStepsAreCheap(client);
  test::ClosedGate gate;
  test::TheProbe().exempt.store(std::thread::id());
  client.Send({0, 1}, {9, 1});
  FailInAChunk(client, gate);
  client.Send({0}, {}, true, Op::kReset);
  client.Take(*client.pool().ReceiveAlone(Op::kReset, 0, 20s, NeverInterrupted));
  client.Send({0}, {1});  // ends its episode: a reset follows
  test::SleepMs(50);
  gate.Open();
  test::SleepMs(50);
  const auto received = client.Receive(2, 0, 20s);
  CHECK_EQ(received->envs, (Envs{0, 1}));
  CHECK_EQ(int{client.out->Get<std::uint8_t>("done", 0)}, 1);
  CHECK_EQ(int{received->resets[0]}, 1);
}

TEST(WhatIsSentComesBackWithTheResults) {
  AsyncClient client(4, {});
  const auto cargo = std::make_shared<int>(7), other = std::make_shared<int>(8);
  const std::int64_t chosen[] = {1, 2};
  const auto* bytes = reinterpret_cast<const std::byte*>(chosen);
  const auto send = [&](const Envs& envs, std::shared_ptr<void> sent) {
    test::Send(client.pool(), Op::kStepAndReset, envs, &bytes, false, NeverInterrupted, std::move(sent));
  };
  send({3, 0}, cargo);
  send({1}, other);
  auto received = client.Receive(3);
  client.pool().PutBack(*received);
  received = client.Receive(3);
  client.pool().Accept(*received);
  CHECK(client.pool().PutBack(*received));  // as after an interrupt that came with the last call
  received = client.Receive(3);
  CHECK_EQ(received->envs, (Envs{0, 1, 3}));
  const auto is = [&](std::size_t k, const std::shared_ptr<int>& whole, std::uint32_t row) {
    return received->cargo[k].whole == whole && received->cargo[k].row == row;
  };
  CHECK(is(0, cargo, 1) && is(1, other, 0) && is(2, cargo, 0));
  client.pool().Accept(*received);
  send({0}, nullptr);
  CHECK(!client.pool().PutBack(*received));  // one of them has been sent since
  received.reset();
  CHECK_EQ(cargo.use_count(), 1);  // nothing is kept
}

TEST(WhatIsPutBackIsReceivedAgain) {
  AsyncClient client(3, {});
  client.Send({2}, {1}, true);
  client.Send({0, 1}, {1, 2});
  for (int i = 0; i < 2; ++i) {
    const auto together = client.Receive(2);
    CHECK_EQ(together->envs, (Envs{0, 1}));
    CHECK_THROWS(PoolError, "only 0 are outstanding", client.Receive(1));
    const auto alone = client.pool().ReceiveAlone(Op::kStepAndReset, 2, {}, NeverInterrupted);
    CHECK_EQ(alone->envs, (Envs{2}));
    if (i > 0) continue;
    client.pool().PutBack(*together);
    client.pool().PutBack(*alone);
  }
}

// The threads' life has another guard than the receivers' look at them.
TEST(ClosingWhileSomebodyReceivesAndLooksAfterThreads) {
  AsyncClient client(2, {.options = {{"sleep_us", 60'000}, {"destroy_us", 100'000}},
                         .num_threads = 2,
                         .step_timeout = std::chrono::seconds(10)});
  client.Send({0, 1}, {1, 2});
  Threads threads;
  threads.Start([&] {
    try {
      client.Receive(2);
    } catch (const PoolError&) {
    }
  });
  test::SleepMs(40);
  client.pool().Close();
  threads.Join();
}

TEST(ATimeoutLosesNothing) {
  AsyncClient client(2, {.options = {{"sleep_us", 50'000}}, .num_threads = 2});
  client.Send({0, 1}, {1, 2});
  CHECK(!client.Receive(2, 0, 1ms).has_value());
  CHECK_EQ(client.Receive(2)->envs.size(), 2u);
}

// Every result of env 1 wakes the thread that waits for env 0, long before it is time to ask.
TEST(AReceiverWhomOthersKeepWakingIsInterruptedAllTheSame) {
  const std::vector configs{test::CounterConfig({{"gate", true}}), test::CounterConfig()};
  AsyncClient client(configs, {.num_threads = 2});
  static std::atomic<bool> has_asked;
  has_asked.store(false);
  const auto interrupted = [] {
    has_asked.store(true);
    return true;
  };
  const test::ClosedGate gate;
  client.Send({0}, {1}, true);
  Threads threads;
  threads.Start([&] {
    const auto receive = [&] { client.pool().ReceiveAlone(Op::kStepAndReset, 0, std::nullopt, interrupted); };
    CHECK(test::IsInterrupted(receive));
  });
  // The number is for broken code only; any of these round trips is shorter than the time between two
  // questions.
  int round_trips = 0;
  for (; !has_asked.load() && round_trips < 200'000; ++round_trips) {
    client.Send({1}, {1}, true);
    client.Take(*client.pool().ReceiveAlone(Op::kStepAndReset, 1, std::nullopt, NeverInterrupted));
  }
  CHECK(round_trips > 0);
  CHECK(has_asked.load());
  threads.Join();
}

// Envs 0 to 2 are at home in one thread, 3 to 5 in the other. Steps are quick, but env 0 holds its thread up
// while the other one is asleep; so would env 2.
class HalfHeldUp : public AsyncClient {
 public:
  HalfHeldUp() : AsyncClient(Configs(), {.num_threads = 2}) {
    Send({0, 1, 2, 3, 4, 5}, {1, 1, 1, 1, 1, 1});
    Take(*Receive(6));
    gate_.emplace();
    Send({0}, {1}, true);
    CHECK(test::Eventually(test::ClosedGate::HoldsAThread));
    test::SleepMs(30);
  }

 private:
  static std::vector<std::shared_ptr<const Config>> Configs() {
    std::vector configs(6, test::CounterConfig());
    configs[0] = configs[2] = test::CounterConfig({{"gate", true}});
    return configs;
  }

  std::optional<test::ClosedGate> gate_;
};

TEST(WorkOfAThreadThatIsHeldUpIsDoneByTheOther) {
  HalfHeldUp client;
  client.Send({1}, {1});
  CHECK(client.Receive(1, 0, 20s).has_value());  // the limit is for broken code only
}

TEST(SoItIsWhereResultsAreAskedForAndNotWaitedFor) {
  HalfHeldUp client;
  client.Send({1}, {1});
  CHECK(test::Eventually([&] { return client.Receive(1, 0, 0s).has_value(); }));
}

TEST(AThreadThatIsBehindIsHelpedWithoutAnybodyAsking) {
  HalfHeldUp client;
  client.Send({1}, {1});
  client.Send({2}, {1});
  CHECK(test::Eventually([] { return test::TheProbe().at_gate.load() == 2; }));
}

TEST(ClosingEndsTheWait) {
  AsyncClient client(2, {.options = {{"sleep_us", 100'000}}, .num_threads = 2});
  client.Send({0, 1}, {1, 2});
  std::atomic<bool> refused{false};
  Threads threads;
  threads.Start([&] {
    try {
      client.Receive(2);
    } catch (const PoolError&) {
      refused.store(true);
    }
  });
  std::this_thread::sleep_for(20ms);
  client.pool().Close();
  threads.Join();
  CHECK(refused.load());
}

}  // namespace
}  // namespace torchrl_pool::core
