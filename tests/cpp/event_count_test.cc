#include "event_count.h"

#include <atomic>
#include <chrono>
#include <memory>
#include <vector>

#include "check.h"
#include "concurrency.h"

namespace torchrl_pool::core {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using test::Scaled;
using test::Threads;

// Sleeps until the condition holds. A wait that runs into its timeout was not woken, although the one who
// made the condition true should have.
template <class Condition>
void Await(EventCount& event, Condition&& condition) {
  while (!condition()) {
    const std::uint32_t key = event.PrepareWait();
    if (condition()) {
      event.CancelWait();
      return;
    }
    const auto start = EventCount::Clock::now();
    event.Wait(key, seconds(20));
    CHECK(EventCount::Clock::now() - start < seconds(20));
  }
}

TEST(TimesOut) {
  EventCount event;
  for (const auto timeout : {milliseconds(0), milliseconds(1), milliseconds(30)}) {
    const auto start = EventCount::Clock::now();
    event.Wait(event.PrepareWait(), timeout);
    const auto took = EventCount::Clock::now() - start;
    CHECK(took >= timeout);
    CHECK(took < timeout + seconds(10));
  }
}

TEST(ReturnsAtOnceWhenNotifiedSincePrepareWait) {
  EventCount event;
  const std::uint32_t key = event.PrepareWait();
  event.Notify();
  const auto start = EventCount::Clock::now();
  event.Wait(key, seconds(60));
  CHECK(EventCount::Clock::now() - start < seconds(30));
}

TEST(ForgetsNotificationsBeforePrepareWait) {
  EventCount event;
  event.Notify();
  const auto start = EventCount::Clock::now();
  event.Wait(event.PrepareWait(), milliseconds(5));
  CHECK(EventCount::Clock::now() - start >= milliseconds(5));
}

TEST(WakesAllSleepers) {
  EventCount event;
  std::atomic<int> asleep{0};
  std::atomic<bool> go{false};
  Threads threads;
  for (int i = 0; i < 4; ++i) {
    threads.Start([&] {
      asleep.fetch_add(1);
      Await(event, [&] { return go.load(std::memory_order_relaxed); });
    });
  }
  CHECK(test::Eventually([&] { return asleep.load() == 4; }));
  test::SleepMs(20);  // until they sleep indeed
  go.store(true, std::memory_order_relaxed);
  event.Notify();
  threads.Join();
}

// The token goes round; whoever has it passes it on and sleeps. Each sleeps on an event of its own.
TEST(LosesNoWakeUpInARing) {
  constexpr std::uint32_t kThreads = 4;
  const auto rounds = static_cast<std::uint32_t>(Scaled(20'000));
  std::vector<std::unique_ptr<EventCount>> events;
  for (std::uint32_t i = 0; i < kThreads; ++i) events.push_back(std::make_unique<EventCount>());
  std::atomic<std::uint32_t> token{0};
  Threads threads;
  for (std::uint32_t self = 0; self < kThreads; ++self) {
    threads.Start([&, self] {
      for (std::uint32_t round = 0; round < rounds; ++round) {
        const std::uint32_t mine = round * kThreads + self;
        Await(*events[self], [&] { return token.load(std::memory_order_relaxed) == mine; });
        token.store(mine + 1, std::memory_order_relaxed);
        events[(self + 1) % kThreads]->Notify();
      }
    });
  }
  threads.Join();
  CHECK_EQ(token.load(), kThreads * rounds);
}

// One waits for work that several hand in, as the caller of a pool does.
TEST(LosesNoWakeUpOfSeveralNotifiers) {
  constexpr int kNotifiers = 3;
  EventCount done, start;
  std::atomic<int> remaining{0};
  std::atomic<int> round{0};
  const int rounds = Scaled(20'000);
  Threads threads;
  for (int i = 0; i < kNotifiers; ++i) {
    threads.Start([&] {
      for (int mine = 1; mine <= rounds; ++mine) {
        Await(start, [&] { return round.load(std::memory_order_acquire) >= mine; });
        if (remaining.fetch_sub(1, std::memory_order_acq_rel) == 1) done.Notify();
      }
    });
  }
  for (int i = 1; i <= rounds; ++i) {
    remaining.store(kNotifiers, std::memory_order_relaxed);
    round.store(i, std::memory_order_release);
    start.Notify();
    Await(done, [&] { return remaining.load(std::memory_order_acquire) == 0; });
  }
  threads.Join();
}

}  // namespace
}  // namespace torchrl_pool::core
