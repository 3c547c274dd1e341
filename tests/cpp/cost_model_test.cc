// How many threads are worth having.
#include "threads/cost_model.h"

#include <chrono>

#include "check.h"

namespace torchrl_pool::core {
namespace {

using std::chrono::microseconds;

TEST(WorkIsSharedAmongThreadsThatAreAwake) {
  CostModel model(4, 4);
  model.Measure(Work::kStep, 1, microseconds(1));
  CHECK(!model.IsWorthSharing(Work::kStep, 10));
  CHECK(model.IsWorthSharing(Work::kStep, 60));
  CHECK_EQ(model.PlanFor(Work::kStep, 10, 4).threads, 1);
  CHECK_EQ(model.PlanFor(Work::kStep, 60, 4).threads, 4);
  CHECK_EQ(model.PlanFor(Work::kStep, 60, 2).threads, 2);
}

TEST(MoreOfItIsWorthWakingThreadsFor) {
  CostModel model(4, 4);
  model.Measure(Work::kStep, 1, microseconds(1));
  CHECK_EQ(model.PlanFor(Work::kStep, 60, 1).threads, 1);
  CHECK_EQ(model.PlanFor(Work::kStep, 160, 1).threads, 2);
  CHECK_EQ(model.PlanFor(Work::kStep, 1000, 1).threads, 4);
}

}  // namespace
}  // namespace torchrl_pool::core
