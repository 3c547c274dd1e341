#include "layout.h"

#include <algorithm>
#include <string>
#include <vector>

#include "check.h"
#include "fixture.h"

namespace torchrl_pool::core {
namespace {

using test::CounterConfig;
using test::KindsConfig;

TEST(AnInfoKeyMayBeNamedTwice) {
  const Layout layout(*CounterConfig(), {.info_keys = {"step_count", "step_count"}, .one_hot = false});
  CHECK_EQ(layout.outputs.size(), 6u);
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
