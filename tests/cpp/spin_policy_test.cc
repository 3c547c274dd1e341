// How long idle threads spin, by how calls have followed each other.
#include "spin_policy.h"

#include <chrono>

#include "check.h"

namespace torchrl_pool::core {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using Time = SpinPolicy::Clock::time_point;

constexpr auto kShortest = microseconds(60);

// So many calls, each of them begun so long after the end of the one before; the last one ends now.
Time Call(SpinPolicy& policy, int times, SpinPolicy::Clock::duration gap) {
  const Time end = SpinPolicy::Clock::now();
  for (int i = times; i-- > 0;) {
    const Time begin = end - i * milliseconds(20) - milliseconds(1);
    policy.Ended(begin - gap);
    policy.Begins(begin);
  }
  policy.Ended(end);
  return end;
}

TEST(ThreadsSpinUntilTheNextCallWhereItComesSoon) {
  SpinPolicy policy(kShortest);
  CHECK(policy.SpinTime() == kShortest);  // nothing is known
  Call(policy, 20, microseconds(5));
  CHECK(policy.SpinTime() == kShortest);
  Call(policy, 20, microseconds(150));
  CHECK(policy.SpinTime() > microseconds(250));
  CHECK(policy.SpinTime() < microseconds(350));
}

TEST(ThreadsParkWhereTheNextCallIsFar) {
  for (const auto gap : {milliseconds(1), milliseconds(5)}) {
    SpinPolicy policy(kShortest);
    const Time ended = Call(policy, 50, gap);
    CHECK(policy.SpinTime() == kShortest);
    CHECK(!policy.IsSpinning(ended + gap));
  }
}

TEST(OneLongGapAmongShortOnesChangesLittle) {
  SpinPolicy policy(kShortest);
  Call(policy, 20, microseconds(100));
  Call(policy, 1, std::chrono::seconds(1));
  CHECK(policy.SpinTime() >= microseconds(200));
  CHECK(policy.SpinTime() <= microseconds(410));
}

TEST(WhoeverCallsInALoopFindsThreadsSpinning) {
  SpinPolicy policy(kShortest);
  CHECK(!policy.IsSpinning(SpinPolicy::Clock::now()));
  const Time ended = Call(policy, 20, microseconds(5));
  CHECK(policy.IsSpinning(ended + microseconds(5)));
  CHECK(!policy.IsSpinning(ended + microseconds(55)));  // they may be about to park
}

}  // namespace
}  // namespace torchrl_pool::core
