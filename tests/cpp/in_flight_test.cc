// Jobs in flight while the caller does something else.
#include <memory>
#include <mutex>
#include <vector>

#include "chain.h"
#include "check.h"
#include "client.h"
#include "concurrency.h"
#include "fixture.h"
#include "held_up.h"
#include "pool.h"

namespace torchrl_pool::core {
namespace {

using test::AlwaysInterrupted;
using test::Client;
using test::ClosedGate;
using test::IsInterrupted;
using test::Mask;
using test::NeverInterrupted;
using test::SomeActions;
using test::Tensors;

// A client with several jobs in flight, each for a run of its envs.
class JobClient : public Client {
 public:
  // envs: how many, or the configuration of each.
  template <class Simulators>
  JobClient(const Simulators& envs, const test::ClientOptions& options)
      : Client(envs, options), recorded(pool().layout().actions, size(), 16) {
    CheckedReset();
    Clear();
  }

  Job& Submit(core::EnvRange envs, const std::vector<std::int64_t>& chosen, const Chain* chain = nullptr) {
    Job& job = pool().Begin(Op::kStepAndReset);
    if (chain) chain->Extend(job);
    // Rows of its own: others' may be in use.
    const auto rows = submitted = std::make_shared<Tensors>(pool().layout().actions, size());
    for (std::uint32_t env = 0; env < size(); ++env) rows->Set("action", env, 0, chosen[env]);
    rows->BindTo(job.actions);
    out->BindTo(job.out);
    root->BindTo(job.root);
    Batch copies = test::MakeBatch(1);
    recorded.BindTo(copies);
    job.recorded = {
        {job.actions.RowsFrom(0, 0), copies.RowsFrom(0, 0), pool().layout().actions[0].row_bytes}};
    job.completes_root = true;
    using Owner = std::vector<std::shared_ptr<Tensors>>;
    job.owner = std::make_shared<Owner>(Owner{rows, out, root});
    pool().Select(job, envs);
    pool().Submit(job, Delivery::kLater, NeverInterrupted);
    return job;
  }
  std::uint32_t Wait(Job& job) { return pool().Wait(job, NeverInterrupted); }

  // Every number of a step of these envs, which end an episode after `length` steps.
  void CheckGroup(core::EnvRange envs, const std::vector<std::int64_t>& chosen, std::int64_t length,
                  std::uint32_t resets) {
    std::uint32_t expected_resets = 0;
    for (std::uint32_t env = envs.first; env < envs.first + envs.count; ++env) {
      CHECK_EQ(recorded.Get<std::int64_t>("action", env), chosen[env]);
      models[env].Step(chosen[env]);
      const bool done = models[env].steps == length;
      CheckRow(*out, env, true, done, false);
      if (done) {
        models[env].Reset();
        ++expected_resets;
      }
      CheckRow(*root, env, !done, false, false);  // completed where the episode goes on
    }
    CHECK_EQ(resets, expected_resets);
  }

  Tensors recorded;
  std::shared_ptr<Tensors> submitted;  // the actions of the last job
};

TEST(JobsInTurnGiveWhatOneCallGives) {
  for (const int num_threads : {1, 2, 4}) {
    JobClient client(
        13, {.options = {{"episode_length", std::int64_t{5}}}, .num_threads = num_threads, .padding = 8});
    const std::vector<core::EnvRange> groups = {{0, 4}, {4, 1}, {5, 8}};
    std::vector<Job*> jobs(groups.size());
    const auto finish = [&](std::uint32_t group, int step) {
      const std::uint32_t resets = client.Wait(*jobs[group]);
      client.CheckGroup(groups[group], SomeActions(13, step), 5, resets);
    };
    for (int step = 0; step < 200; ++step) {
      for (std::uint32_t group = 0; group < groups.size(); ++group) {
        if (step > 0) finish(group, step - 1);
        jobs[group] = &client.Submit(groups[group], SomeActions(13, step));
      }
    }
    for (std::uint32_t group = 0; group < groups.size(); ++group) finish(group, 199);
    CHECK(client.out->PaddingIsUntouched() && client.root->PaddingIsUntouched() &&
          client.recorded.PaddingIsUntouched());
    client.CheckedStep(Op::kStepAndReset, SomeActions(13, 200), nullptr, 5);
  }
}

// Notes the first env of each job that it learns from.
class Noting final : public Stage {
 public:
  void Run(const StageRows&, When) const override {}
  void Learn(const BatchRows& rows, std::byte*) const override {
    std::lock_guard lock(mutex_);
    noted_.push_back(rows.env(0));
  }
  std::vector<std::uint32_t> noted() const {
    std::lock_guard lock(mutex_);
    return noted_;
  }

 private:
  mutable std::mutex mutex_;
  mutable std::vector<std::uint32_t> noted_;
};

TEST(JobsLearnInTheOrderOfTheirSubmission) {
  for (const int num_threads : {1, 2, 4}) {
    std::vector<std::shared_ptr<const Config>> configs(6, test::CounterConfig({}));
    configs[0] = test::CounterConfig({{"gate", true}});
    JobClient client(configs, {.num_threads = num_threads});
    Chain chain({client.pool().layout().outputs.size(), {}, 1, {}, {}});
    const auto noting = std::make_shared<Noting>();
    chain.Add(1, noting, true, false);
    const auto chosen = SomeActions(6, 0);
    const std::vector<core::EnvRange> groups = {{0, 2}, {2, 2}, {4, 2}};
    std::vector<Job*> jobs;
    {
      const ClosedGate gate;
      for (const core::EnvRange group : groups) jobs.push_back(&client.Submit(group, chosen, &chain));
      test::SleepMs(5);  // with more than one thread the others' envs have been stepped
      CHECK(noting->noted().empty());
    }
    for (std::size_t i = groups.size(); i-- > 0;) {  // whichever is waited for first
      client.CheckGroup(groups[i], chosen, 0, client.Wait(*jobs[i]));
    }
    CHECK_EQ(noting->noted(), (std::vector<std::uint32_t>{0, 2, 4}));
  }
}

TEST(AJobThatFailsLetsTheNextOneLearn) {
  std::vector<std::shared_ptr<const Config>> configs(2, test::CounterConfig({}));
  configs[0] = test::CounterConfig({{"fail_at_step", std::int64_t{1}}});
  JobClient client(configs, {});
  Chain chain({client.pool().layout().outputs.size(), {}, 1, {}, {}});
  const auto noting = std::make_shared<Noting>();
  chain.Add(1, noting, true, false);
  const auto chosen = SomeActions(2, 0);
  Job& fails = client.Submit({0, 1}, chosen, &chain);
  Job& learns = client.Submit({1, 1}, chosen, &chain);
  client.CheckGroup({1, 1}, chosen, 0, client.Wait(learns));
  CHECK_THROWS(EnvFailure, "", client.Wait(fails));
  CHECK_EQ(noting->noted(), std::vector<std::uint32_t>{1});
}

TEST(TheRulesOfJobs) {
  JobClient client(4, {.options = {{"gate", true}}});
  const auto chosen = SomeActions(4, 0);
  CHECK_THROWS(StatusError, "env_index 4 is out of range", client.Submit({2, 3}, chosen));
  CHECK_THROWS(StatusError, "is out of range", client.Submit({4294967295u, 2}, chosen));
  CHECK_THROWS(StatusError, "is out of range", client.Submit({1, 4294967295u}, chosen));
  CHECK_THROWS(StatusError, "expected", client.Submit({0, 2}, {0, 99, 0, 0}));
  Job* job = nullptr;
  {
    const ClosedGate gate;
    job = &client.Submit({0, 2}, chosen);
    CHECK_THROWS(PoolError, "env 1 is in flight", client.Submit({1, 2}, chosen));
    CHECK_THROWS(PoolError, "env 0 is in flight", client.Step(chosen));
    CHECK_THROWS(PoolError, "env 0 is in flight", client.Reset());
    CHECK_THROWS(PoolError, "env 0 is in flight", test::Save(client.pool(), 0));
  }
  client.CheckGroup({0, 2}, chosen, 0, client.Wait(*job));
  const Mask others = {0, 0, 1, 1};
  client.CheckedStep(Op::kStep, chosen, &others);
}

TEST(NoEnvsAreDoneAtOnce) {
  JobClient client(4, {});
  CHECK_EQ(client.Wait(client.Submit({4, 0}, SomeActions(4, 0))), 0u);
}

TEST(AnInterruptedWaitLosesNothing) {
  JobClient client(4, {.options = {{"gate", true}}});
  const auto chosen = SomeActions(4, 0);
  Job* job = nullptr;
  {
    const ClosedGate gate;
    job = &client.Submit({0, 4}, chosen);
    CHECK(IsInterrupted([&] { client.pool().Wait(*job, AlwaysInterrupted); }));
  }
  client.CheckGroup({0, 4}, chosen, 0, client.Wait(*job));
}

TEST(AnInterruptedCallLeavesOthersTheirWork) {
  JobClient client(8, {.options = {{"gate", true}}, .num_threads = 3});
  const auto chosen = SomeActions(8, 0);
  const Mask others = {0, 0, 0, 0, 1, 1, 1, 1};
  Job* job = nullptr;
  {
    const ClosedGate gate;
    job = &client.Submit({0, 4}, chosen);
    CHECK(test::Eventually(ClosedGate::HoldsAThread));
    client.interrupted = AlwaysInterrupted;
    while (!IsInterrupted([&] { client.Step(chosen, &others); })) {
    }
    client.interrupted = NeverInterrupted;
  }
  CHECK_EQ(client.Wait(*job), 0u);
  client.CheckedReset();
  client.CheckedStep(Op::kStep, chosen);
}

// An interrupted call says nothing about the envs of another job, neither while it goes on nor after it.
TEST(AnEnvInFlightIsNotLoadedWhileACallIsAbandoned) {
  // Longer than a call waits before it asks whether it is interrupted: an env is being stepped then.
  std::vector configs(4, test::CounterConfig({{"cost_ns", std::int64_t{60'000'000}}}));
  configs[3] = test::CounterConfig({{"gate", true}});
  JobClient client(configs, {});
  const auto state = test::Save(client.pool(), 3);
  const auto chosen = SomeActions(4, 0);
  const Mask others = {1, 1, 1, 0};
  Job* job = nullptr;
  {
    const ClosedGate gate;
    job = &client.Submit({3, 1}, chosen);
    CHECK(test::Eventually(ClosedGate::HoldsAThread));
    client.interrupted = AlwaysInterrupted;
    CHECK(IsInterrupted([&] { client.Step(chosen, &others); }));
    client.interrupted = NeverInterrupted;
    CHECK_THROWS(PoolError, "env 3 is in flight", test::Load(client.pool(), 3, state));
  }
  client.Wait(*job);
  test::Load(client.pool(), 3, state);
  client.CheckedReset();
}

TEST(AnAbandonedJobIsSettledByTheNextCall) {
  for (const int num_threads : {1, 2, 4}) {
    JobClient client(6, {.options = {{"gate", true}}, .num_threads = num_threads});
    {
      const ClosedGate gate;
      Job& job = client.Submit({0, 3}, SomeActions(6, 0));
      CHECK(test::Eventually(ClosedGate::HoldsAThread));
      client.pool().Abandon(job);
      client.interrupted = AlwaysInterrupted;
      CHECK(IsInterrupted([&] { client.Reset(); }));  // which waits for it
      client.interrupted = NeverInterrupted;
    }
    CHECK_THROWS(PoolError, "its state is unknown", client.Submit({0, 3}, SomeActions(6, 1)));
    client.CheckedReset();
    client.Wait(client.Submit({0, 6}, SomeActions(6, 2)));
  }
}

// What a job for later reads may be written again as soon as it is submitted.
TEST(AJobForLaterHasCopiedWhatItReads) {
  JobClient client(4, {.options = {{"gate", true}}});
  const auto chosen = SomeActions(4, 0);
  Job* job = nullptr;
  {
    const ClosedGate gate;
    job = &client.Submit({0, 4}, chosen);
    for (std::uint32_t env = 0; env < 4; ++env) client.submitted->Set("action", env, 0, std::int64_t{9});
  }
  client.CheckGroup({0, 4}, chosen, 0, client.Wait(*job));
}

TEST(AFailureIsReportedByTheWait) {
  JobClient client(6, {.options = {{"fail_at_step", std::int64_t{2}}}});
  for (int step = 0; step < 2; ++step) {
    Job& job = client.Submit({0, 3}, SomeActions(6, step));
    if (step == 0) {
      client.Wait(job);
    } else {
      CHECK_THROWS(EnvFailure, "env 0", client.Wait(job));
    }
  }
  CHECK_THROWS(PoolError, "env 0 has failed", client.Submit({0, 3}, SomeActions(6, 2)));
  client.Wait(client.Submit({3, 3}, SomeActions(6, 0)));
  client.CheckedReset();
}

// A home whose thread is held up, and threads that sleep: who waits does the work, or has it done.
TEST(CheapEnvsAtHomeWithAThreadThatIsHeldUpDoNotWaitForIt) {
  std::vector configs(8, test::CounterConfig());
  configs[0] = test::CounterConfig({{"gate", true}});
  JobClient client(configs, {.num_threads = 4});
  for (int step = 0; step < 300; ++step)
    client.StepAndReset(SomeActions(8, step));  // cheap: one thread will do
  ClosedGate gate;
  test::SleepMs(20);
  Job& held = client.Submit({0, 1}, SomeActions(8, 0));
  CHECK(test::Eventually(ClosedGate::HoldsAThread));
  for (const core::EnvRange envs : {core::EnvRange{1, 1}, core::EnvRange{4, 4}}) {
    test::SleepMs(20);  // the others sleep
    client.Wait(client.Submit(envs, SomeActions(8, 1)));
  }
  gate.Open();
  client.Wait(held);
}

TEST(APoolWithAJobInFlightCanBeClosed) {
  const std::weak_ptr<Tensors> owner = [] {
    JobClient client(4, {.options = {{"gate", true}}});
    auto gate = std::make_unique<ClosedGate>();
    Job& job = client.Submit({0, 4}, SomeActions(4, 0));
    CHECK(test::Eventually(ClosedGate::HoldsAThread));
    std::weak_ptr<Tensors> out = client.out;
    client.out.reset();
    CHECK(!out.expired());  // the pool's, while its threads write there
    gate.reset();
    client.pool().Close();
    CHECK_THROWS(PoolError, "closed", client.Wait(job));
    return out;
  }();
  CHECK(owner.expired());
}

}  // namespace
}  // namespace torchrl_pool::core
