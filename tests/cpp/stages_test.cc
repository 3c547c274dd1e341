// Each stage by itself, over one row.
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "check.h"
#include "stages/episode.h"
#include "stages/observation.h"
#include "stages/one_hot.h"

namespace torchrl_pool::core {
namespace {

// One output of an env, the column made from it, and some state.
template <class Written, class Seen>
class OneRow {
 public:
  OneRow(std::vector<Written> written, std::size_t seen) : written(std::move(written)), seen(seen) {}

  bool Run(const Stage& stage, std::int64_t elapsed_steps = 1, bool is_wanted = true) {
    const Batch batch{{is_wanted ? reinterpret_cast<std::byte*>(seen.data()) : nullptr}, {0}, {0}};
    void* outputs[] = {written.data()};
    auto* const bytes = reinterpret_cast<std::byte*>(state);
    return stage.run({batch, 0, outputs, elapsed_steps, reward, nullptr, nullptr, &error}, bytes);
  }

  std::vector<Written> written;
  std::vector<Seen> seen;
  float state[4] = {};
  double reward = std::numeric_limits<double>::quiet_NaN();
  trp_error error{};
};

TEST(ConvertsNumbers) {
  OneRow<double, float> row({0.1, -2.5}, 2);
  const Stage stage = Convert<double, float>(0, 0, 2);
  CHECK(row.Run(stage));
  CHECK_EQ(row.seen, (std::vector<float>{0.1f, -2.5f}));
  CHECK(row.Run(stage, 1, false));  // nobody wants it
}

TEST(EncodesChoices) {
  OneRow<std::int64_t, std::int64_t> row({1, 0}, 5);
  const Stage stage = EncodeOneHot(0, 0, "which", {3, 2});
  CHECK(row.Run(stage));
  CHECK_EQ(row.seen, (std::vector<std::int64_t>{0, 1, 0, 1, 0}));
  for (const std::int64_t bad : {std::int64_t{3}, std::int64_t{-1}}) {
    row.written[0] = bad;
    CHECK(!row.Run(stage));
    CHECK(std::string(row.error.message).find("to 'which', expected one of 0 to 2") != std::string::npos);
  }
}

TEST(DecodesTheFirstHotEntry) {
  const std::int64_t hot[] = {0, 1, 1, 1, 1};
  std::int64_t numbers[2] = {};
  DecodeOneHot({3, 2}, hot, numbers);
  CHECK_EQ(numbers[0], 1);
  CHECK_EQ(numbers[1], 0);
}

TEST(RefusesNan) {
  OneRow<double, double> row({1, std::numeric_limits<double>::quiet_NaN()}, 1);
  CHECK(!row.Run(RefuseNan<double>(0, "position", 2, false)));
  CHECK_EQ(std::string(row.error.message), "the env wrote nan to 'position'");
  CHECK(row.Run(RefuseNan<double>(0, "reward", 2, true), 0));  // a reset writes no reward
  row.written[1] = INFINITY;
  CHECK(row.Run(RefuseNan<double>(0, "position", 2, false)));
}

TEST(TellsRewardsAsTheyWere) {
  OneRow<float, double> row({0.1f}, 1);
  const Stage stage = ExactReward(0, 0);
  CHECK(row.Run(stage));
  CHECK_EQ(row.seen[0], static_cast<double>(0.1f));  // the env has told nothing more
  row.reward = 0.1;
  CHECK(row.Run(stage));
  CHECK_EQ(row.seen[0], 0.1);
  CHECK(row.Run(stage, 0));
  CHECK_EQ(row.seen[0], 0.0);  // of a reset
}

TEST(CountsAndSums) {
  OneRow<float, float> row({0.5f, 2}, 2);
  const Stage sum = EpisodeReward<float>(0, 0, "episode_reward", 2);
  row.state[0] = 9;  // of the last episode
  CHECK(row.Run(sum, 0));
  CHECK_EQ(row.seen, (std::vector<float>{0, 0}));
  for (int step = 1; step <= 3; ++step) CHECK(row.Run(sum, step));
  CHECK_EQ(row.seen, (std::vector<float>{1.5f, 6}));
  OneRow<float, std::int64_t> count({0}, 1);
  CHECK(count.Run(StepCount(0), 7));
  CHECK_EQ(count.seen[0], 7);
  OneRow<float, std::uint8_t> flag({0}, 1);
  for (const std::int64_t step : {0, 1}) {
    CHECK(flag.Run(IsInit(0), step));
    CHECK_EQ(int{flag.seen[0]}, int{step == 0});
  }
}

}  // namespace
}  // namespace torchrl_pool::core
