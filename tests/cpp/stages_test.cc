// What the layout makes of what an env writes: its stages, each over one row.
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "check.h"
#include "transforms/one_hot.h"
#include "transforms/told_by_envs.h"

namespace torchrl_pool::core {
namespace {

constexpr auto kStep = Stage::When::kStep, kReset = Stage::When::kReset;
constexpr ValueIndex kWritten = 0, kSeen = 1, kFault = 2, kTold = 3;

// One output of an env, the column made from it, and what a stage may look at besides.
template <class Written, class Seen>
class OneRow {
 public:
  OneRow(std::vector<Written> written, std::size_t seen) : written(std::move(written)), seen(seen) {}

  // Whether the env is not at fault.
  bool Run(const Stage& stage, Stage::When when = kStep) {
    const auto rows = [](auto* value) { return Rows{reinterpret_cast<std::byte*>(value), 0}; };
    const Rows values[] = {rows(written.data()), rows(seen.data()), rows(&fault), rows(&told)};
    fault.is_found = false;
    stage.Run({values, nullptr, 0, 1}, when);
    return !fault.is_found;
  }

  std::vector<Written> written;
  std::vector<Seen> seen;
  trp_error error{};
  Fault fault{&error};
  double told = std::numeric_limits<double>::quiet_NaN();
};

TEST(EncodesChoices) {
  OneRow<std::int64_t, std::int64_t> row({1, 0}, 5);
  const EncodeOneHotStage stage(kWritten, kSeen, kFault, "which", {3, 2});
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
  const RefuseNanStage<double> stage(kWritten, 2, kFault, "position");
  CHECK(!row.Run(stage));
  CHECK_EQ(std::string(row.error.message), "the env wrote nan to 'position'");
  row.written[1] = INFINITY;
  CHECK(row.Run(stage));
}

TEST(TellsRewardsAsTheyWere) {
  OneRow<float, double> row({0.1f}, 1);
  const ExactRewardStage stage(kTold, kWritten, kSeen);
  CHECK(row.Run(stage));
  CHECK_EQ(row.seen[0], static_cast<double>(0.1f));  // the env has told nothing more
  row.told = 0.1;
  CHECK(row.Run(stage));
  CHECK_EQ(row.seen[0], 0.1);
  CHECK(row.Run(stage, kReset));
  CHECK_EQ(row.seen[0], 0.0);
}

}  // namespace
}  // namespace torchrl_pool::core
