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
constexpr auto kForGood = hours(1);

// So many calls, each of them begun a while after the work of the one before; that of the last one is over
// now.
Time Call(Rhythm& rhythm, int times, Rhythm::Clock::duration gap) {
  const Time end = Rhythm::Clock::now();
  for (int i = times; i-- > 0;) {
    const Time begin = end - i * milliseconds(20) - milliseconds(1);
    rhythm.Ended(begin - gap);
    rhythm.Begins(begin);
  }
  rhythm.Ended(end);
  return end;
}

TEST(ThreadsWaitAwakeForTheNextCallWhereItComesSoon) {
  Rhythm rhythm(kLeast);
  CHECK(rhythm.WaitFrom(Rhythm::Clock::now()).awake == kLeast);  // nothing is known
  CHECK(rhythm.WaitFrom(Call(rhythm, 20, microseconds(5))).awake == kLeast);
  const Time ended = Call(rhythm, 20, microseconds(150));
  const auto wait = rhythm.WaitFrom(ended);
  CHECK(wait.awake > microseconds(250));
  CHECK(wait.awake < microseconds(350));
  CHECK(!wait.is_guess);
  CHECK(rhythm.NapTime(ended + wait.awake) == kForGood);
}

TEST(ThreadsSleepWhereTheNextCallIsFar) {
  Rhythm rhythm(kLeast);
  const Time ended = Call(rhythm, 50, milliseconds(5));
  CHECK(rhythm.WaitFrom(ended).awake == kLeast);
  CHECK(rhythm.NapTime(ended + kLeast) == kForGood);
  CHECK(rhythm.WaitFrom(ended + milliseconds(5)).awake == kLeast);
  CHECK(!rhythm.IsExpected(ended + milliseconds(5)));
}

TEST(ThreadsAreAwakeAgainWhenTheNextCallIsExpected) {
  Rhythm rhythm(kLeast);
  const Time ended = Call(rhythm, 50, milliseconds(1));
  CHECK(rhythm.WaitFrom(ended).awake == kLeast);
  const auto nap = rhythm.NapTime(ended + kLeast);
  CHECK(nap > microseconds(700));
  CHECK(nap < microseconds(900));
  const Time woken = ended + kLeast + nap;
  const auto wait = rhythm.WaitFrom(woken);
  CHECK(wait.awake > microseconds(200));
  CHECK(wait.awake < microseconds(400));
  CHECK(wait.is_guess);
  CHECK(rhythm.NapTime(woken + wait.awake) == kForGood);  // for this call there is no other one
  CHECK(!rhythm.IsExpected(ended + microseconds(500)));
  CHECK(rhythm.IsExpected(ended + milliseconds(1)));
  CHECK(!rhythm.IsExpected(ended + microseconds(1300)));
}

TEST(NobodyGoesToSleepWhenTheNextCallIsExpectedSoon) {
  for (const int gap : {301, 320, 340, 349, 360, 400}) {
    for (const auto least : {kLeast, microseconds(200)}) {
      Rhythm rhythm(least);
      const Time ended = Call(rhythm, 50, microseconds(gap));
      const Time later = ended + rhythm.WaitFrom(ended).awake;
      const Time woken = later + rhythm.NapTime(later);
      CHECK(later >= ended + microseconds(gap) ||
            woken + rhythm.WaitFrom(woken).awake > ended + microseconds(gap));
      CHECK(later >= ended + microseconds(gap) || woken < ended + microseconds(gap));
    }
  }
}

TEST(OneLongGapAmongShortOnesChangesLittle) {
  Rhythm rhythm(kLeast);
  Call(rhythm, 20, microseconds(100));
  const auto wait = rhythm.WaitFrom(Call(rhythm, 1, std::chrono::seconds(1)));
  CHECK(wait.awake >= microseconds(200));
  CHECK(wait.awake <= microseconds(410));
}

TEST(WhoeverCallsInALoopFindsThreadsAwake) {
  Rhythm rhythm(kLeast);
  CHECK(!rhythm.IsQuick(Rhythm::Clock::now()));
  const Time ended = Call(rhythm, 20, microseconds(5));
  CHECK(rhythm.IsQuick(ended + microseconds(5)));
  CHECK(!rhythm.IsQuick(ended + microseconds(55)));  // they may just go to sleep
}

TEST(OnlyWhoHadWorkExpectsMore) {
  Rhythm rhythm(kLeast);
  Call(rhythm, 50, milliseconds(2));
  IdleTime idle(rhythm);
  CHECK(idle.SleepTime() == kForGood);
  idle.Worked();
  CHECK(idle.SleepTime() < milliseconds(2));
  CHECK(idle.SleepTime() == kForGood);
}

}  // namespace
}  // namespace torchrl_pool::core
