#include "env_table.h"

#include <cstdint>
#include <vector>

#include "check.h"
#include "fixture.h"

namespace torchrl_pool::core {
namespace {

using Envs = std::vector<std::uint32_t>;

EnvTable Table(std::uint32_t num_envs) {
  return {std::vector<EnvRequest>(num_envs, EnvRequest{test::CounterConfig(), 0}), {}};
}

// A job for these envs, whose actions are all 0.
struct Asked : Job {
  Asked(const EnvTable& table, Op what, Envs which) {
    op = what;
    chosen = std::move(which);
    envs = chosen;
    memory.resize(table.size());
    actions.AddColumn(sizeof(std::int64_t));
    actions.base[0] = reinterpret_cast<std::byte*>(memory.data());
  }
  std::vector<std::int64_t> memory;
};

TEST(OnlyResetsAreForEnvsThatWereNeverReset) {
  EnvTable table = Table(4);
  CHECK_THROWS(PoolError, "env 1 has not been reset", table.Launch(Asked(table, Op::kStep, {1, 2})));
  CHECK(table.state(1) == EnvState::kUnset);
  table.Launch(Asked(table, Op::kReset, {0, 1, 3}));
  for (const std::uint32_t env : {0u, 1u, 3u}) CHECK(table.state(env) == EnvState::kInFlight);
  CHECK(table.state(2) == EnvState::kUnset);
}

TEST(AnEnvInFlightIsLeftAlone) {
  EnvTable table = Table(3);
  table.SetState(table.all(), EnvState::kReady);
  table.Launch(Asked(table, Op::kStep, {1}));
  for (const Op op : {Op::kReset, Op::kStep, Op::kStepAndReset}) {
    CHECK_THROWS(PoolError, "env 1 is in flight", table.Launch(Asked(table, op, {0, 1, 2})));
  }
  CHECK(table.state(0) == EnvState::kReady);
}

TEST(ARefusedActionChangesNothing) {
  EnvTable table = Table(3);
  table.SetState(table.all(), EnvState::kReady);
  Asked asked(table, Op::kStep, {0, 2});
  asked.memory[2] = 99;
  CHECK_THROWS(StatusError, "of env 2", table.Launch(asked));
  CHECK(table.state(0) == EnvState::kReady);
  asked.memory[2] = 0;
  asked.memory[1] = 99;  // of an env that is not asked
  table.Launch(asked);
}

TEST(FailedEnvsSayWhyUntilTheyAreReset) {
  EnvTable table = Table(3);
  table.SetState(table.all(), EnvState::kReady);
  const std::vector<EnvFault> faults = {{2, "it broke", 7}, {0, "so did it", EnvFault::kInReset}};
  table.MarkFailed(faults);
  CHECK_THROWS(PoolError, "env 2 has failed and must be reset before it can be stepped again: it broke",
               table.Launch(Asked(table, Op::kStep, {1, 2})));
  table.Launch(Asked(table, Op::kReset, {2}));
  const EnvFailure failure = table.FailureOf(faults);
  CHECK_EQ(failure.faults[0].env_index, 0);
  CHECK(std::string(failure.what()).find("env 0 (Counter-v0) failed in a reset: so did it (and 1 more env") ==
        0);
}

TEST(UnknownEnvsAreRefused) {
  const EnvTable table = Table(3);
  table.CheckIndex(2);
  CHECK_THROWS(StatusError, "env_index 3 is out of range for 3 envs", table.CheckIndex(3));
}

}  // namespace
}  // namespace torchrl_pool::core
