// How threads spend the time between calls, by how those have followed each other.
#include "rhythm.h"

#include <chrono>

#include "check.h"
#include "cpu.h"

namespace torchrl_pool::core {
namespace {

using std::chrono::hours;
using std::chrono::microseconds;
using std::chrono::milliseconds;
using Time = Rhythm::Clock::time_point;

constexpr auto kLeast = microseconds(60);
constexpr auto kLong = hours(1);

// So many calls, each of them begun a while after the work of the one before. When the last one's was over.
Time Call(Rhythm& rhythm, int times, Rhythm::Clock::duration gap) {
  static Time now{hours(1)};
  for (int i = 0; i < times; ++i) {
    rhythm.Ended(now);
    now += gap;
    rhythm.Begins(now);
    now += milliseconds(1);
  }
  rhythm.Ended(now);
  return now;
}

TEST(ThreadsWaitAwakeForTheNextCallWhereItComesSoon) {
  Rhythm rhythm(kLeast);
  CHECK(rhythm.AwakeTime(Time(hours(1))) == kLeast);  // nothing is known
  CHECK(rhythm.AwakeTime(Call(rhythm, 20, microseconds(5))) == kLeast);
  const Time ended = Call(rhythm, 20, microseconds(150));
  CHECK(rhythm.AwakeTime(ended) > microseconds(250));
  CHECK(rhythm.AwakeTime(ended) < microseconds(350));
  CHECK(rhythm.NapTime(ended + microseconds(350)) == kLong);
}

TEST(ThreadsSleepWhereTheNextCallIsFar) {
  Rhythm rhythm(kLeast);
  const Time ended = Call(rhythm, 50, milliseconds(5));
  CHECK(rhythm.AwakeTime(ended) == kLeast);
  CHECK(rhythm.NapTime(ended + kLeast) == kLong);
  CHECK(rhythm.AwakeTime(ended + milliseconds(5)) == kLeast);
}

TEST(ThreadsAreAwakeAgainWhenTheNextCallIsExpected) {
  Rhythm rhythm(kLeast);
  const Time ended = Call(rhythm, 50, milliseconds(1));
  CHECK(rhythm.AwakeTime(ended) == kLeast);
  const auto nap = rhythm.NapTime(ended + kLeast);
  CHECK(nap > microseconds(700));
  CHECK(nap < microseconds(900));
  const Time woken = ended + kLeast + nap;
  CHECK(rhythm.AwakeTime(woken) > microseconds(200));
  CHECK(rhythm.AwakeTime(woken) < microseconds(400));
  CHECK(rhythm.NapTime(woken) == kLong);  // for this call there is no other one
  CHECK(!rhythm.AreAwake(ended + microseconds(500)));
  CHECK(!rhythm.AreAwake(woken));  // that takes a while
  CHECK(rhythm.AreAwake(ended + milliseconds(1)));
  CHECK(!rhythm.AreAwake(ended + microseconds(1300)));
}

TEST(OneLongGapAmongShortOnesChangesLittle) {
  Rhythm rhythm(kLeast);
  Call(rhythm, 20, microseconds(100));
  const Time ended = Call(rhythm, 1, std::chrono::seconds(1));
  CHECK(rhythm.AwakeTime(ended) >= microseconds(200));
  CHECK(rhythm.AwakeTime(ended) <= microseconds(410));
}

TEST(WhoeverCallsInALoopFindsThreadsAwake) {
  Rhythm rhythm(kLeast);
  CHECK(!rhythm.AreAwake(Time(hours(1))));
  const Time ended = Call(rhythm, 20, microseconds(5));
  CHECK(rhythm.AreAwake(ended + microseconds(5)));
  CHECK(!rhythm.AreAwake(ended + microseconds(55)));  // they may just go to sleep
}

}  // namespace
}  // namespace torchrl_pool::core
