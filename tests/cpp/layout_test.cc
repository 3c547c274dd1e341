#include "layout.h"

#include <algorithm>
#include <string>
#include <vector>

#include "check.h"
#include "errors.h"
#include "fixture.h"

namespace torchrl_pool::core {
namespace {

using test::CounterConfig;
using test::KindsConfig;
using test::MakeConfig;

std::vector<std::string> Names(const Layout& layout) {
  std::vector<std::string> names;
  for (const OutputColumn& column : layout.outputs) names.push_back(column.spec.name);
  return names;
}

const OutputColumn& Find(const Layout& layout, const std::string& name) {
  for (const OutputColumn& column : layout.outputs) {
    if (column.spec.name == name) return column;
  }
  test::Fail(__FILE__, __LINE__, "no column " + name);
}

TEST(ListsTheTasksOutputsThenTheExecutorsOwn) {
  CHECK_EQ(Names(Layout(*CounterConfig(), {})),
           (std::vector<std::string>{"count", "reward", "terminated", "truncated", "done"}));
  CHECK_EQ(Names(Layout(*KindsConfig(), {})),
           (std::vector<std::string>{"nested/float64", "vector", "pixels", "agents/reward", "agents/done",
                                     "terminated", "truncated", "done"}));
}

TEST(ColumnsKnowTheirSizes) {
  const Layout layout(*KindsConfig(), {});
  CHECK_EQ(Find(layout, "nested/float64").row_bytes, 48u);
  CHECK_EQ(Find(layout, "vector").row_bytes, 8u);
  CHECK_EQ(Find(layout, "pixels").row_bytes, 3u);
  CHECK_EQ(Find(layout, "agents/reward").row_bytes, 8u);
  CHECK_EQ(Find(layout, "agents/done").row_bytes, 2u);
  CHECK_EQ(Find(layout, "done").row_bytes, 1u);
  CHECK_EQ(layout.actions.size(), 17u);
  CHECK_EQ(layout.actions[0].row_bytes, 16u);
}

TEST(InfoKeysSelectColumns) {
  CHECK_EQ(NativeKeys(*CounterConfig()),
           (std::vector<std::string>{"step_count", "is_init", "exact_reward", "episode_reward"}));
  CHECK_EQ(NativeKeys(*KindsConfig()),
           (std::vector<std::string>{"step_count", "is_init", "agents/episode_reward"}));
  const Layout layout(
      *KindsConfig(),
      {.info_keys = {"is_init", "info64", "agents/episode_reward", "step_count"}, .one_hot = false});
  CHECK_EQ(Names(layout),
           (std::vector<std::string>{"nested/float64", "vector", "pixels", "info64", "agents/reward",
                                     "agents/done", "terminated", "truncated", "done", "step_count",
                                     "agents/episode_reward", "is_init"}));
  std::vector<int> columns;
  for (const Target& target : layout.targets) columns.push_back(target.column);
  CHECK_EQ(columns, (std::vector<int>{0, 1, 2, Target::kNoColumn, 3, 4, 5}));
  CHECK(layout.targets[3].scratch == Target::kNoScratch);  // nobody asked for it
  CHECK_EQ(layout.at_steps.size(), 4u);                    // the sum is kept, and copied
  CHECK_EQ(layout.states.size(), 1u);
  CHECK(layout.state_bytes >= 2 * sizeof(float));
  CHECK_EQ(Find(layout, "step_count").spec.dtype, TRP_INT64);
  CHECK_EQ(Find(layout, "step_count").row_bytes, 8u);
  CHECK_EQ(Find(layout, "agents/episode_reward").spec.shape, std::vector<std::int64_t>{2});
}

TEST(UnknownInfoKeysAreRefusedWithTheKnownOnes) {
  const LayoutOptions options{.info_keys = {"step_count", "speed"}, .one_hot = false};
  CHECK_THROWS(StatusError, "'Kinds-v0' has no info key 'speed'", Layout(*KindsConfig(), options));
  for (const char* known : {"step_count", "is_init", "agents/episode_reward", "info32", "info64"}) {
    CHECK_THROWS(StatusError, known, Layout(*KindsConfig(), options));
  }
  // What is always there is no info key.
  CHECK_THROWS(StatusError, "no info key 'vector'",
               Layout(*KindsConfig(), {.info_keys = {"vector"}, .one_hot = false}));
}

TEST(AnInfoKeyMayBeNamedTwice) {
  const Layout layout(*CounterConfig(), {.info_keys = {"step_count", "step_count"}, .one_hot = false});
  CHECK_EQ(layout.outputs.size(), 6u);
}

TEST(FloatDtypeConvertsObservationsOnly) {
  const std::vector<std::string> keys = {"info32", "info64"};
  const Layout f32(*KindsConfig(), {.info_keys = keys, .one_hot = false, .obs_dtype = TRP_FLOAT32});
  CHECK_EQ(Find(f32, "nested/float64").spec.dtype, TRP_FLOAT32);
  CHECK_EQ(Find(f32, "nested/float64").row_bytes, 24u);
  CHECK_EQ(Find(f32, "vector").spec.dtype, TRP_FLOAT32);
  CHECK_EQ(Find(f32, "pixels").spec.dtype, TRP_UINT8);
  CHECK_EQ(Find(f32, "info64").spec.dtype, TRP_FLOAT64);
  CHECK_EQ(f32.at_steps.size(), 1u);
  CHECK_EQ(f32.targets[0].column, Target::kNoColumn);  // through scratch
  const Layout f64(*KindsConfig(), {.info_keys = keys, .one_hot = false, .obs_dtype = TRP_FLOAT64});
  CHECK_EQ(Find(f64, "vector").spec.dtype, TRP_FLOAT64);
  CHECK_EQ(Find(f64, "vector").row_bytes, 16u);
  CHECK_EQ(Find(f64, "agents/reward").spec.dtype, TRP_FLOAT32);
  CHECK_EQ(Find(f64, "info32").spec.dtype, TRP_FLOAT32);
}

TEST(ObsDtypeMustBeAFloat) {
  CHECK_THROWS(StatusError, "float32 or float64",
               Layout(*KindsConfig(), {.info_keys = {}, .one_hot = false, .obs_dtype = TRP_INT32}));
}

TEST(OneHotActionsAreAsWideAsTheirCategories) {
  const Layout layout(*KindsConfig(), {.info_keys = {}, .one_hot = true});
  CHECK(layout.actions[0].one_hot);  // flags: 2 + 2
  CHECK_EQ(layout.actions[0].row_bytes, 4 * sizeof(std::int64_t));
  CHECK(!layout.actions[1].one_hot);
  CHECK_EQ(layout.actions.back().row_bytes, 3 * sizeof(std::int64_t));
}

TEST(OneHotObservationsPassThroughScratch) {
  const auto config = MakeConfig("raw_plugin", "RepeatingChoices-v0");
  const Layout layout(*config, {.info_keys = {}, .one_hot = true});
  const OutputColumn& column = layout.outputs[0];
  CHECK(column.spec.one_hot);
  CHECK_EQ(column.spec.shape, (std::vector<std::int64_t>{2, 5}));
  CHECK_EQ(column.spec.Choices(), (std::vector<std::int64_t>{2, 3}));
  CHECK_EQ(column.spec.OneHotShape(), column.spec.shape);
  CHECK_EQ(column.row_bytes, 10 * sizeof(std::int64_t));
  CHECK_EQ(layout.at_steps.size(), 1u);
  CHECK_EQ(layout.targets[0].column, Target::kNoColumn);
  const Layout numbers(*config, {.info_keys = {}, .one_hot = false});
  CHECK(numbers.at_steps.empty());
  CHECK_EQ(numbers.outputs[0].row_bytes, 4 * sizeof(std::int64_t));
}

TEST(ScratchSlotsAreAlignedAndDisjoint) {
  const auto config = KindsConfig();
  const Layout layout(*config, {.info_keys = {}, .one_hot = true});
  std::vector<std::pair<std::size_t, std::size_t>> slots;
  std::size_t output = 0;
  for (const Spec& spec : config->specs()) {
    if (spec.role != TRP_ACTION) {
      const std::size_t scratch = layout.targets[output++].scratch;
      if (scratch != Target::kNoScratch) slots.emplace_back(scratch, spec.row_bytes());
    }
  }
  CHECK_EQ(output, layout.targets.size());
  for (const ActionColumn& column : layout.actions) {
    slots.emplace_back(column.scratch, column.spec.row_bytes());
  }
  std::sort(slots.begin(), slots.end());
  for (std::size_t i = 0; i < slots.size(); ++i) {
    const std::size_t end = i + 1 < slots.size() ? slots[i + 1].first : layout.scratch_bytes;
    CHECK(slots[i].first + slots[i].second <= end);
    CHECK_EQ(slots[i].first % 64, 0u);
  }
}

TEST(MismatchNamesTheDifference) {
  CHECK_EQ(Mismatch(*KindsConfig(), *KindsConfig()), "");
  CHECK_EQ(Mismatch(*KindsConfig(), *KindsConfig({{"high", 2.0}})), "");  // bounds may differ
  CHECK(Mismatch(*KindsConfig(), *KindsConfig({{"width", 3}})).find("'vector' different shapes") !=
        std::string::npos);
  CHECK(Mismatch(*KindsConfig(), *CounterConfig()).find("different numbers of entries") != std::string::npos);
}

}  // namespace
}  // namespace torchrl_pool::core
