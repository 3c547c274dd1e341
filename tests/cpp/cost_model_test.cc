// How long threads wait awake, by how calls follow each other, and how many are worth having.
#include "threads/cost_model.h"

#include <chrono>

#include "check.h"
#include "cpu.h"

namespace torchrl_pool::core {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

// So many calls, each of them begun a while after the visits of the one before.
void Call(CostModel& model, int times, CostModel::Clock::duration gap) {
  static CostModel::Clock::time_point now{std::chrono::hours(1)};
  for (int i = 0; i < times; ++i) {
    model.VisitsEnded(now);
    now += gap;
    model.CallBegins(now);
    now += milliseconds(1);
  }
}

TEST(ThreadsWaitAwakeForTheNextCallWhereItComesSoon) {
  CostModel model(4, 4);
  CHECK(model.AwakeTime() == kAwake);  // nothing is known
  Call(model, 20, microseconds(5));
  CHECK(model.AwakeTime() == kAwake);
  Call(model, 20, microseconds(150));
  CHECK(model.AwakeTime() > microseconds(250));
  CHECK(model.AwakeTime() < microseconds(350));
}

TEST(ThreadsSleepWhereTheNextCallIsFar) {
  CostModel model(4, 4);
  Call(model, 50, milliseconds(5));
  CHECK(model.AwakeTime() == kAwake);
}

TEST(OneLongGapAmongShortOnesChangesLittle) {
  CostModel model(4, 4);
  Call(model, 20, microseconds(100));
  Call(model, 1, std::chrono::seconds(1));
  CHECK(model.AwakeTime() >= microseconds(200));
  CHECK(model.AwakeTime() <= microseconds(410));
}

TEST(ThreadsThatSleepAreWokenForCallsThatFollowEachOther) {
  CostModel model(4, 4);
  model.Measure(Work::kStep, 1, microseconds(1));
  CHECK(!model.IsWorthSharing(Work::kStep, 10));
  CHECK(model.IsWorthSharing(Work::kStep, 60));
  CHECK_EQ(model.PlanFor(Work::kStep, 60).threads, 1);  // one call alone does not pay for it
  model.CallBegins(CostModel::Clock::now());
  model.VisitsEnded(CostModel::Clock::now() + milliseconds(100));  // no time passes until the next one
  CHECK_EQ(model.PlanFor(Work::kStep, 60).threads, 4);
  CHECK_EQ(model.PlanFor(Work::kStep, 10).threads, 1);
}

}  // namespace
}  // namespace torchrl_pool::core
