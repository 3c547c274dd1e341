#include "bare_loop.h"

#include <cstdint>
#include <string>
#include <vector>

#include "check.h"
#include "counter.h"
#include "errors.h"
#include "fixture.h"

namespace torchrl_pool::core {
namespace {

using test::CounterConfig;
using test::TheProbe;

const std::vector<std::int64_t> kChosen = {0, 3, 1, 4, 2};

BareLoop::Actions Chosen() {
  return {.rows = {reinterpret_cast<const std::byte*>(kChosen.data())}, .num_rows = kChosen.size()};
}

TEST(StepsEveryEnvAndStartsNewEpisodes) {
  for (const int threads : {1, 2, 3}) {
    BareLoop loop(CounterConfig({{"episode_length", std::int64_t{5}}}), 7, threads, 0);
    CHECK_EQ(loop.Run(52, Chosen()), 7 * 10);
    CHECK_EQ(loop.Run(3, Chosen()), 7);  // goes on where the last run ended
    CHECK_EQ(loop.Run(0, Chosen()), 0);
  }
}

TEST(KeepsTheTimeLimit) {
  BareLoop loop(CounterConfig(), 4, 2, 10);
  CHECK_EQ(loop.Run(25, Chosen()), 4 * 2);
}

TEST(MoreThreadsThanEnvs) {
  BareLoop loop(CounterConfig(), 2, 8, 1);
  CHECK_EQ(loop.Run(3, Chosen()), 2 * 3);
}

TEST(EveryRowOfActionsIsTaken) {
  const auto run = [](std::int64_t bad_action) {
    BareLoop(CounterConfig({{"fail_on_action", bad_action}}), 1, 1, 0).Run(5, Chosen());
  };
  for (const std::int64_t action : kChosen) {
    CHECK_THROWS(StatusError, "action " + std::to_string(action), run(action));
  }
  run(7);
}

TEST(SaysWhyAnEnvFailed) {
  const auto config = CounterConfig({{"fail_at_step", std::int64_t{3}}});
  BareLoop loop(config, 4, 2, 0);
  loop.Run(2, Chosen());
  CHECK_THROWS(StatusError, "the step fails", loop.Run(1, Chosen()));
}

TEST(AnEnvThatCannotBeCreatedLeavesNothingBehind) {
  const std::int64_t before = TheProbe().envs.load();
  CHECK_THROWS(StatusError, "no such counter", BareLoop(CounterConfig({{"fail_create", true}}), 3, 2, 0));
  {
    BareLoop loop(CounterConfig(), 3, 2, 0);
    CHECK_EQ(TheProbe().envs.load(), before + 3);
  }
  CHECK_EQ(TheProbe().envs.load(), before);
}

TEST(RefusesNothingToDo) {
  CHECK_THROWS(StatusError, "at least one env", BareLoop(CounterConfig(), 0, 1, 0));
  CHECK_THROWS(StatusError, "at least one env", BareLoop(CounterConfig(), 1, 0, 0));
}

}  // namespace
}  // namespace torchrl_pool::core
