// Threads, queues and waking, without a pool around them.
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "check.h"
#include "concurrency.h"
#include "counter.h"
#include "fixture.h"
#include "threads/thread_executor.h"

namespace torchrl_pool::core {
namespace {

bool Never() { return false; }

class SmallExecutor {
 public:
  SmallExecutor(std::uint32_t num_envs, int num_threads, const test::Options& options = {})
      : table(std::vector<EnvRequest>(num_envs, EnvRequest{test::CounterConfig(options), 0}), {}),
        jobs(table.layout()),
        executor(table, jobs, {.num_threads = num_threads, .thread_affinity = {}, .step_timeout = {}}),
        actions(table.layout().actions, num_envs),
        out(table.layout().outputs, num_envs),
        root(table.layout().outputs, num_envs) {
    for (std::uint32_t env = 0; env < num_envs; ++env) actions.Set<std::int64_t>("action", env, 0, 1);
    executor.Start();
    Run(Op::kCreate);
    Run(Op::kReset);
  }
  ~SmallExecutor() {
    executor.Stop();
    executor.WaitForThreads(Never);
    executor.Join();
  }

  Job& Begin(Op op, Delivery delivery = Delivery::kAwaited) {
    Job& job = jobs.Take(op);
    job.envs = table.all();
    job.delivery = delivery;
    actions.BindTo(job.actions);
    out.BindTo(job.out);
    root.BindTo(job.root);
    executor.Begin(job);
    return job;
  }
  std::uint32_t Finish(Job& job) {
    executor.WaitFor(job, Never);
    CHECK(job.faults.empty());
    const std::uint32_t resets = job.resets.load();
    jobs.Drop(job);
    return resets;
  }
  std::uint32_t Run(Op op) { return Finish(Begin(op)); }

  EnvTable table;
  JobStore jobs;
  ThreadExecutor executor;
  test::Tensors actions, out, root;
};

TEST(EveryEnvIsVisitedOncePerJob) {
  for (const int threads : {1, 2, 5}) {
    SmallExecutor small(33, threads);
    for (int step = 1; step <= 200; ++step) small.Run(Op::kStep);
    for (std::uint32_t env = 0; env < 33; ++env) CHECK_EQ(small.out.Get<std::int64_t>("count", env, 2), 200);
  }
}

TEST(ThreadsComeBackAfterAPause) {
  SmallExecutor small(2'000, 2);  // some 80 µs of work: too little to wake anybody for one call
  for (int step = 0; step < 50; ++step) small.Run(Op::kStep);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  const auto is_shared = [&] {
    Job& job = small.Begin(Op::kStep);
    const bool is_inline = job.IsInline();
    small.Finish(job);
    return !is_inline;
  };
  int calls = 0;
  while (!is_shared() && calls < 1'000) ++calls;
  CHECK(calls < 1'000);
}

TEST(TheSecondPhaseCompletesTheRoot) {
  for (const int threads : {1, 3}) {
    SmallExecutor small(2'000, threads, {{"episode_length", std::int64_t{3}}});
    small.Run(Op::kStepAndReset);
    CHECK(small.root.IsUntouched(0));  // no env has begun an episode
    small.Run(Op::kStepAndReset);
    for (std::uint32_t env = 0; env < 2'000; env += 2) small.table.slot(env).elapsed_steps = 0;
    CHECK_EQ(small.Run(Op::kStepAndReset), 2'000u);
    const std::uint32_t first[] = {0};
    Job& job = small.jobs.Take(Op::kStep);  // env 0 is a step ahead of the others
    job.envs = first;
    job.delivery = Delivery::kAwaited;
    small.actions.BindTo(job.actions);
    small.out.BindTo(job.out);
    small.executor.Begin(job);
    small.Finish(job);
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
  SmallExecutor small(2, 1);
  const Job& job = small.jobs.Take(Op::kStep);
  CHECK(begin(job.op) - begin(job) >= kApart);
  CHECK(begin(job.remaining) - end(job.cancelled) >= kApart);
  CHECK(end(job) - end(job.chosen) >= kApart);
  const Scratch scratch(small.table.layout());
  CHECK(begin(scratch.actions) - begin(scratch) >= kApart);
  CHECK(end(scratch) - end(scratch.faults) >= kApart);
}

TEST(ACancelledJobVisitsNoMoreEnvs) {
  SmallExecutor small(4, 2, {{"sleep_us", std::int64_t{20'000}}});
  Job& job = small.Begin(Op::kStep, Delivery::kLater);
  job.cancelled.store(true);
  small.executor.WaitFor(job, Never);
  small.jobs.Drop(job);
  std::int64_t visited = 0;
  for (std::uint32_t env = 0; env < 4; ++env) visited += small.table.slot(env).elapsed_steps;
  CHECK(visited < 4);
}

TEST(JobsAreUsedAgainAndLetGoOfTheirOwners) {
  SmallExecutor small(2, 2);
  const auto owner = std::make_shared<int>();
  Job& job = small.Begin(Op::kStep);
  job.owner = owner;
  small.Finish(job);
  CHECK_EQ(owner.use_count(), 1);
  CHECK(&small.jobs.Take(Op::kStep) == &job);
}

}  // namespace
}  // namespace torchrl_pool::core
