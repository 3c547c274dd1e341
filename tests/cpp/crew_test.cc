// Threads, queues and waking, without a pool around them.
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "check.h"
#include "concurrency.h"
#include "fixture.h"
#include "threads/thread_crew.h"

namespace torchrl_pool::core {
namespace {

bool Never() { return false; }

class SmallCrew {
 public:
  SmallCrew(std::uint32_t num_envs, int num_threads, const test::Options& options = {})
      : table(std::vector<EnvRequest>(num_envs, EnvRequest{test::CounterConfig(options), 0}), {}),
        tickets(table.layout()),
        crew(table, tickets, {.num_threads = num_threads, .thread_affinity = {}, .step_timeout = {}}),
        actions(table.layout().actions, num_envs),
        out(table.layout().outputs, num_envs),
        root(table.layout().outputs, num_envs) {
    for (std::uint32_t env = 0; env < num_envs; ++env) actions.Set<std::int64_t>("action", env, 0, 1);
    crew.Start();
    Run(Op::kCreate);
    Run(Op::kReset);
  }
  ~SmallCrew() {
    crew.Stop();
    crew.WaitForThreads(Never);
    crew.Join();
  }

  Ticket& Begin(Op op, bool at_once = true) {
    Ticket& ticket = tickets.Take(op);
    ticket.envs = table.all();
    ticket.at_once = at_once;
    actions.BindTo(ticket.actions);
    out.BindTo(ticket.out);
    root.BindTo(ticket.root);
    crew.Begin(ticket);
    return ticket;
  }
  std::uint32_t Finish(Ticket& ticket) {
    crew.WaitFor(ticket, Never);
    CHECK(ticket.faults.empty());
    const std::uint32_t resets = ticket.resets.load();
    tickets.Drop(ticket);
    return resets;
  }
  std::uint32_t Run(Op op) { return Finish(Begin(op)); }

  EnvTable table;
  TicketBox tickets;
  ThreadCrew crew;
  test::Tensors actions, out, root;
};

TEST(EveryEnvIsVisitedOncePerTicket) {
  for (const int threads : {1, 2, 5}) {
    SmallCrew small(33, threads);
    for (int step = 1; step <= 200; ++step) small.Run(Op::kStep);
    for (std::uint32_t env = 0; env < 33; ++env) CHECK_EQ(small.out.Get<std::int64_t>("count", env, 2), 200);
  }
}

TEST(ThreadsComeBackAfterAPause) {
  SmallCrew small(2'000, 2);  // some 80 µs of work: too little to wake anybody for one call
  for (int step = 0; step < 50; ++step) small.Run(Op::kStep);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  const auto is_shared = [&] {
    Ticket& ticket = small.Begin(Op::kStep);
    const bool is_inline = ticket.IsInline();
    small.Finish(ticket);
    return !is_inline;
  };
  int calls = 0;
  while (!is_shared() && calls < 1'000) ++calls;
  CHECK(calls < 1'000);
}

TEST(TheSecondPhaseCompletesTheRoot) {
  for (const int threads : {1, 3}) {
    SmallCrew small(2'000, threads, {{"episode_length", std::int64_t{3}}});
    small.Run(Op::kStepAndReset);
    CHECK(small.root.IsUntouched(0));  // no env has begun an episode
    small.Run(Op::kStepAndReset);
    for (std::uint32_t env = 0; env < 2'000; env += 2) small.table.slot(env).elapsed_steps = 0;
    CHECK_EQ(small.Run(Op::kStepAndReset), 2'000u);
    const std::uint32_t first[] = {0};
    Ticket& ticket = small.tickets.Take(Op::kStep);  // env 0 is a step ahead of the others
    ticket.envs = first;
    ticket.at_once = true;
    small.actions.BindTo(ticket.actions);
    small.out.BindTo(ticket.out);
    small.crew.Begin(ticket);
    small.Finish(ticket);
    small.Run(Op::kStepAndReset);
    CHECK_EQ(small.Run(Op::kStepAndReset), 1u);
    CHECK_EQ(small.root.Get<std::int64_t>("count", 0, 2), 0);
    for (std::uint32_t env = 1; env < 2'000; ++env)
      CHECK_EQ(small.root.Get<std::int64_t>("count", env, 2), 2);
  }
}

TEST(WhatVisitsReadLiesApartFromWhatOtherThreadsWrite) {
  const auto begin = [](const auto& object) { return reinterpret_cast<std::uintptr_t>(&object); };
  const auto end = [&](const auto& object) { return begin(object) + sizeof object; };
  SmallCrew small(2, 1);
  const Ticket& ticket = small.tickets.Take(Op::kStep);
  CHECK(begin(ticket.op) - begin(ticket) >= kApart);
  CHECK(begin(ticket.remaining) - end(ticket.cancelled) >= kApart);
  CHECK(end(ticket) - end(ticket.chosen) >= kApart);
  const Scratch scratch(small.table.layout());
  CHECK(begin(scratch.actions) - begin(scratch) >= kApart);
  CHECK(end(scratch) - end(scratch.faults) >= kApart);
}

TEST(ACancelledTicketVisitsNoMoreEnvs) {
  SmallCrew small(4, 2, {{"sleep_us", std::int64_t{20'000}}});
  Ticket& ticket = small.Begin(Op::kStep, false);
  ticket.cancelled.store(true);
  small.crew.WaitFor(ticket, Never);
  small.tickets.Drop(ticket);
  std::int64_t visited = 0;
  for (std::uint32_t env = 0; env < 4; ++env) visited += small.table.slot(env).elapsed_steps;
  CHECK(visited < 4);
}

TEST(TicketsAreUsedAgainAndLetGoOfTheirOwners) {
  SmallCrew small(2, 2);
  const auto owner = std::make_shared<int>();
  Ticket& ticket = small.Begin(Op::kStep);
  ticket.owner = owner;
  small.Finish(ticket);
  CHECK_EQ(owner.use_count(), 1);
  CHECK(&small.tickets.Take(Op::kStep) == &ticket);
}

}  // namespace
}  // namespace torchrl_pool::core
