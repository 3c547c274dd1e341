// How a pool ends: closed, closed while it is at work, and left behind in a parent process.
#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "check.h"
#include "client.h"
#include "concurrency.h"
#include "fixture.h"
#include "held_up.h"
#include "pool.h"

namespace torchrl_pool::core {
namespace {

using test::Client;
using test::RunInChild;
using test::SomeActions;

void CheckClosed(Client& client) {
  std::uint8_t rgb[6];
  CHECK_THROWS(PoolError, "closed", client.Reset());
  CHECK_THROWS(PoolError, "closed", client.Step(SomeActions(client.size(), 0)));
  CHECK_THROWS(PoolError, "closed", test::Save(client.pool(), 0));
  CHECK_THROWS(PoolError, "closed", test::Load(client.pool(), 0, {}));
  CHECK_THROWS(PoolError, "closed", test::Render(client.pool(), 0, rgb));
  CHECK_THROWS(PoolError, "closed", client.pool().RenderSize(0));
}

TEST(AClosedPoolRefusesEverything) {
  for (const int threads : {1, 3}) {
    Client client(8, {.num_threads = threads});
    client.CheckedReset();
    client.pool().Close();
    CHECK_EQ(test::TheProbe().envs.load(), 0);
    CheckClosed(client);
    client.pool().Close();
    CheckClosed(client);
    CHECK_EQ(client.pool().num_envs(), 8u);
  }
}

TEST(ManyPoolsComeAndGo) {
  for (int i = 0; i < test::Scaled(500); ++i) {
    Client client(1 + static_cast<std::uint32_t>(i) % 9, {.num_threads = 1 + i % 5});
    if (i % 3 == 0) client.Reset();
    if (i % 7 == 0) client.pool().Close();
  }
  CHECK_EQ(test::TheProbe().envs.load(), 0);
}

// Every thread that closes a pool may rely on its being closed afterwards.
void CloseWhileHeldUp(int closers) {
  Client client(4, {.options = {{"gate", true}}});
  client.CheckedReset();
  std::atomic<int> closed{0};
  test::Threads threads;
  {
    test::HeldUpStep held(client, threads);
    for (int i = 0; i < closers; ++i) {
      threads.Start([&] {
        client.pool().Close();
        closed.fetch_add(1);
      });
    }
    test::SleepMs(30);
    CHECK_EQ(closed.load(), 0);
    CHECK_EQ(test::TheProbe().envs.load(), 4);
  }
  threads.Join();
  CHECK_EQ(closed.load(), closers);
  CHECK_EQ(test::TheProbe().envs.load(), 0);
  client.CheckStepped(Op::kStep, SomeActions(4, 0), nullptr, 0, 0,
                      0);  // the step ended as if nothing had been
  CheckClosed(client);
}

TEST(ClosingWaitsForTheCallOfAnotherThread) { CloseWhileHeldUp(1); }

TEST(WhoClosesGoesOnWhereAnotherThreadHasGivenUp) {
  static std::atomic<bool> stop;
  stop = false;
  Client client(4, {.options = {{"gate", true}}});
  client.CheckedReset();
  test::Threads threads;
  {
    test::HeldUpStep held(client, threads);
    std::atomic<bool> has_begun{false};
    threads.Start([&] {
      has_begun = true;
      CHECK(test::IsInterrupted([&] { client.pool().Close([] { return stop.load(); }); }));
    });
    CHECK(test::Eventually([&] { return has_begun.load(); }));
    test::SleepMs(30);
    threads.Start([&] { client.pool().Close(); });
    test::SleepMs(30);
    stop = true;
    test::SleepMs(60);
  }
  threads.Join();
  CheckClosed(client);
  CHECK_EQ(test::TheProbe().envs.load(), 0);
}

TEST(EveryoneWhoClosesWaits) { CloseWhileHeldUp(3); }

TEST(ClosingRacesWithCalls) {
  for (int round = 0; round < test::Scaled(200); ++round) {
    Client client(12, {.options = {{"cost_ns", 3'000}}, .num_threads = 3});
    client.Reset();
    test::Threads threads;
    threads.Start([&] {
      try {
        while (true) client.Step(SomeActions(12, 0));
      } catch (const PoolError&) {
      }
    });
    threads.Start([&] {
      try {
        while (true) test::Save(client.pool(), 3);
      } catch (const PoolError& e) {
        if (std::string(e.what()).find("closed") == std::string::npos) return;  // refused: a call is running
      }
    });
    std::this_thread::sleep_for(std::chrono::microseconds(round % 10 * 50));
    client.pool().Close();
    threads.Join();
  }
  CHECK_EQ(test::TheProbe().envs.load(), 0);
}

// The caller waits in a pool and is asked whether to go on: in Python that is where signal handlers run, and
// one may close the pool.
Client* closes_itself = nullptr;
TEST(ClosingFromAnInterruptCheckDoesNotHang) {
  if (test::kThreadSanitizer) return;  // it has no threads in a forked child
  const int code = RunInChild(10, [] {
    Client client(2, {.options = {{"sleep_us", 50'000}}});
    client.Reset();
    closes_itself = &client;
    client.interrupted = [] {
      try {
        closes_itself->pool().Close();
      } catch (const PoolError&) {
      }
      return true;
    };
    try {
      client.Step(SomeActions(2, 0));
    } catch (const Interrupted&) {
    } catch (const PoolError&) {
    }
    return 0;
  });
  CHECK_EQ(code, 0);
}

// 0 when everything that a forked child does with its parent's pool is refused.
int UseParentsPool(Client& client) {
  std::uint8_t rgb[6];
  CHECK(client.pool().forked());
  CHECK_THROWS(PoolError, "before the process forked", client.pool().Begin(Op::kReset));
  CHECK_THROWS(PoolError, "before the process forked", test::Save(client.pool(), 0));
  CHECK_THROWS(PoolError, "before the process forked", test::Load(client.pool(), 0, {}));
  CHECK_THROWS(PoolError, "before the process forked", test::Render(client.pool(), 0, rgb));
  client.pool().Close();
  return 0;
}

// A closure waits for a call, a fault is received meanwhile, and the closure is given up after all.
TEST(AFaultIsToldWhileSomebodyCloses) {
  Client client(4, {.options = {{"gate", true}, {"fail_on_action", std::int64_t{9}}}, .num_threads = 3});
  client.CheckedReset();
  Pool& pool = client.pool();
  Batch out = test::MakeBatch(pool.layout().outputs.size()), root = out;
  client.out->BindTo(out);
  client.root->BindTo(root);
  pool.PrepareAsync(out, root);
  std::atomic<bool> has_waited{false}, is_told{false};
  static std::atomic<bool> gives_up;
  gives_up = false;
  test::Threads threads;
  {
    test::ClosedGate gate;
    const std::int64_t action = 9;
    const auto* base = reinterpret_cast<const std::byte*>(&action);
    const std::uint32_t env = 3;
    test::Send(pool, Op::kStep, std::span(&env, 1), &base, false, test::NeverInterrupted);
    CHECK(test::Eventually(test::ClosedGate::HoldsAThread));
    threads.Start([&] {
      CHECK_THROWS(EnvFailure, "env 3", pool.Receive(Op::kStep, 1, 0, {}, test::NeverInterrupted));
      is_told = true;
    });
    for (int i = 0; i < 4; ++i) client.actions->Set<std::int64_t>("action", i, 0, 1);
    Job& job = pool.Begin(Op::kStep);
    client.actions->BindTo(job.actions);
    client.out->BindTo(job.out);
    pool.Select(job, EnvRange{0, 1});
    pool.Submit(job, Delivery::kLater, test::NeverInterrupted);
    threads.Start([&] {
      pool.Wait(job, test::NeverInterrupted, [&] {
        while (!has_waited) std::this_thread::yield();
      });
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    threads.Start([&] {
      CHECK_THROWS(Interrupted, "", pool.Close([] { return gives_up.load(); }));
      has_waited = true;
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  CHECK(test::Eventually([&] { return is_told.load(); }));
  gives_up = true;
  threads.Join();
  client.CheckedReset();
}

TEST(ClosingWaitsForThoseWhoWaitForAnAbandonedCall) {
  Client client(
      4, {.options = {{"gate", true}}, .num_threads = 1, .step_timeout = std::chrono::milliseconds(60000)});
  client.CheckedReset();
  test::Threads threads;
  {
    test::ClosedGate gate;
    client.interrupted = test::ClosedGate::HoldsAThread;
    CHECK_THROWS(Interrupted, "", client.Step(SomeActions(4, 0)));
    client.interrupted = [] { return false; };
    threads.Start([&] {
      try {
        client.Step(SomeActions(4, 0));
      } catch (const PoolError&) {  // it is closed by then, or the envs must be reset
      }
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    threads.Start([&] { client.pool().Close(); });
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  threads.Join();
}

TEST(AForkedChildIsRefused) {
  if (test::kThreadSanitizer) return;
  Client client(8, {.num_threads = 3});
  client.CheckedReset();
  CHECK(!client.pool().forked());
  CHECK_EQ(RunInChild(10, [&] { return UseParentsPool(client); }), 0);
  CHECK(!client.pool().forked());
  client.CheckedStep(Op::kStep, SomeActions(8, 0));
}

TEST(AForkedChildMayHaveItsOwnPool) {
  if (test::kThreadSanitizer) return;
  Client client(8, {.num_threads = 3});
  client.CheckedReset();
  const int code = RunInChild(20, [] {
    Client own(8, {.num_threads = 3});
    own.CheckedReset();
    for (int step = 0; step < 20; ++step) own.CheckedStep(Op::kStep, SomeActions(8, step));
    return 0;
  });
  CHECK_EQ(code, 0);
  client.CheckedStep(Op::kStep, SomeActions(8, 0));
}

TEST(AForkedChildIsRefusedWhileTheParentSteps) {
  if (test::kThreadSanitizer) return;
  Client client(4, {.options = {{"gate", true}}});
  client.CheckedReset();
  test::Threads threads;
  {
    test::HeldUpStep held(client, threads);
    CHECK_EQ(RunInChild(10, [&] { return UseParentsPool(client); }), 0);
  }
  threads.Join();
}

TEST(AForkedChildIsRefusedWhileTheParentDraws) {
  // Another thread of the parent is inside the pool, which it may have locked.
  if (test::kThreadSanitizer) return;
  Client client(4, {.options = {{"render_us", 300'000}}});
  client.CheckedReset();
  test::Threads threads;
  threads.Start([&] {
    std::uint8_t rgb[6];
    test::Render(client.pool(), 0, rgb);
  });
  CHECK(test::Eventually([] { return test::TheProbe().rendering.load(); }));
  CHECK_EQ(RunInChild(5, [&] { return UseParentsPool(client); }), 0);
  threads.Join();
}

}  // namespace
}  // namespace torchrl_pool::core
