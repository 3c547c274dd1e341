// How many threads are worth having.
#include "threads/cost_model.h"

#include <chrono>

#include "check.h"
#include "cpu.h"
#include "rhythm.h"

namespace torchrl_pool::core {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

TEST(ThreadsThatSleepAreWokenForCallsThatFollowEachOther) {
  CostModel model(4, 4);
  Rhythm rhythm(kAwake);
  model.Measure(Work::kStep, 1, microseconds(1));
  CHECK(!model.IsWorthSharing(Work::kStep, 10));
  CHECK(model.IsWorthSharing(Work::kStep, 60));
  CHECK_EQ(model.PlanFor(Work::kStep, 60, rhythm).threads, 1);  // one call alone does not pay for it
  rhythm.Begins(Rhythm::Clock::now());
  rhythm.Ended(Rhythm::Clock::now() + milliseconds(100));  // no time passes until the next one
  CHECK_EQ(model.PlanFor(Work::kStep, 60, rhythm).threads, 4);
  CHECK_EQ(model.PlanFor(Work::kStep, 10, rhythm).threads, 1);
}

}  // namespace
}  // namespace torchrl_pool::core
