// Envs that fail: the caller learns which and why, the others go on, and a reset brings them back.
#include <unistd.h>

#include <csignal>
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
using test::CounterConfig;
using test::Mask;
using test::SomeActions;

using Indices = std::vector<std::int64_t>;

// The envs that the failure names, after checking that each has a message with `text` in it.
template <class Function>
Indices FailedEnvs(const std::string& text, Function&& function) {
  Indices indices;
  try {
    function();
  } catch (const EnvFailure& e) {
    for (const EnvFault& fault : e.faults) {
      indices.push_back(fault.env_index);
      CHECK(fault.message.find(text) != std::string::npos);
    }
    CHECK(std::string(e.what()).find("env " + std::to_string(indices.front()) + " (") == 0);
    CHECK(std::string(e.what()).find(text) != std::string::npos);
    if (indices.size() > 1) {
      CHECK(std::string(e.what()).find("and " + std::to_string(indices.size() - 1) + " more env") !=
            std::string::npos);
    }
  }
  return indices;
}

constexpr std::int64_t kFailingAction = 9;

TEST(AFailedStepNamesItsEnvAndTheOthersGoOn) {
  for (const int threads : {1, 3}) {
    for (const std::int64_t cost : {0, 30'000}) {
      Client client(
          20, {.options = {{"fail_on_action", kFailingAction}, {"cost_ns", cost}}, .num_threads = threads});
      client.CheckedReset();
      for (int round = 0; round < 3; ++round) {
        std::vector<std::int64_t> chosen(20, 2);
        chosen[13] = chosen[4] = kFailingAction;
        client.Clear();
        CHECK_EQ(FailedEnvs("action 9", [&] { client.Step(chosen); }), (Indices{4, 13}));
        Mask failed(20);
        for (std::uint32_t env = 0; env < 20; ++env) {
          if (env == 4 || env == 13) {
            failed[env] = 1;
            CHECK(client.out->IsZero(env));
            continue;
          }
          client.models[env].Step(2);
          client.CheckRow(*client.out, env, true, false, false);
        }
        CHECK_THROWS(PoolError, "env 4 has failed and must be reset before it can be stepped again: action 9",
                     client.Step(std::vector<std::int64_t>(20, 2)));
        client.CheckedReset(&failed);
        client.CheckedStep(Op::kStep, std::vector<std::int64_t>(20, 3));
      }
    }
  }
}

TEST(OthersCanBeSteppedWhileOneHasFailed) {
  Client client(6, {.options = {{"fail_on_action", kFailingAction}}});
  client.CheckedReset();
  std::vector<std::int64_t> chosen(6, 1);
  chosen[0] = kFailingAction;
  CHECK_EQ(FailedEnvs("action 9", [&] { client.Step(chosen); }), Indices{0});
  for (std::uint32_t env = 1; env < 6; ++env) client.models[env].Step(1);
  const Mask others = {0, 1, 1, 1, 1, 1};
  client.CheckedStep(Op::kStep, chosen, &others);
  client.CheckedStep(Op::kStepAndReset, chosen, &others);
}

// A handler that reports crashes is called in the thread that crashes.
TEST(SignalsOfACrashReachTheirHandlers) {
  if (test::kThreadSanitizer || test::kAddressSanitizer) return;
  for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL}) {
    const int code = test::RunInChild(20, [signal] {
      std::signal(signal, [](int) { _exit(42); });
      Client client(2, {.options = {{"raises", std::int64_t{signal}}}, .num_threads = 2});
      client.Reset();
      client.Step({0, 0});  // the first of a kind is the threads' work
      return 0;
    });
    CHECK_EQ(code, 42);
  }
}

// A task whose author never heard of env.h.
TEST(EachFaultHasItsOwnMessage) {
  const auto config = test::MakeConfig("raw_plugin", "Faults-v0");
  std::vector<EnvRequest> envs(4, EnvRequest{config, 0});
  const auto owned = Pool::Open(envs, {}, test::NeverInterrupted);
  Pool& pool = *owned;
  for (int step = 0; step < 3; ++step) {
    Job& job = pool.Begin(step == 0 ? Op::kReset : Op::kStep);
    pool.Submit(job, Delivery::kAwaited, test::NeverInterrupted);
    try {
      pool.Wait(job, test::NeverInterrupted);
      CHECK(step < 2);
    } catch (const EnvFailure& e) {
      CHECK_EQ(e.faults.size(), 2u);
      CHECK_EQ(e.faults[0].message, "told you so");
      CHECK(e.faults[1].message.find("told you so") == std::string::npos);  // that one said nothing
    }
  }
}

}  // namespace
}  // namespace torchrl_pool::core
