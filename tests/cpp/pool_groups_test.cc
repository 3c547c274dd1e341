// Groups of envs that step while the caller does something else.
#include <memory>
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
using test::ClosedGate;
using test::IsInterrupted;
using test::Mask;
using test::NeverInterrupted;
using test::SomeActions;
using test::Tensors;

bool Always() { return true; }

// A client that steps runs of its envs as groups.
class GroupClient : public Client {
 public:
  GroupClient(std::uint32_t num_envs, const test::ClientOptions& options)
      : Client(num_envs, options), recorded(pool().layout().actions, num_envs, 16) {
    CheckedReset();
    Clear();
  }

  void Submit(std::uint32_t group, core::Run envs, const std::vector<std::int64_t>& chosen) {
    Ticket& ticket = pool().BeginGroup(group, Op::kStepAndReset, NeverInterrupted);
    // Rows of its own: others' may be in use.
    const auto rows = std::make_shared<Tensors>(pool().layout().actions, size());
    for (std::uint32_t env = 0; env < size(); ++env) rows->Set("action", env, 0, chosen[env]);
    rows->BindTo(ticket.actions);
    out->BindTo(ticket.out);
    root->BindTo(ticket.root);
    Batch copies = test::MakeBatch(1);
    recorded.BindTo(copies);
    ticket.recorded = {
        {ticket.actions.RowsFrom(0, 0), copies.RowsFrom(0, 0), pool().layout().actions[0].row_bytes}};
    ticket.completes_root = true;
    using Owner = std::vector<std::shared_ptr<Tensors>>;
    pool().SubmitGroup(group, envs, std::make_shared<Owner>(Owner{rows, out, root}));
  }
  std::uint32_t Wait(std::uint32_t group) { return pool().WaitGroup(group, NeverInterrupted); }

  // Every number of a step of these envs, which end an episode after `length` steps.
  void CheckGroup(core::Run envs, const std::vector<std::int64_t>& chosen, std::int64_t length,
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
};

TEST(GroupsInTurnGiveWhatOneCallGives) {
  for (const int num_threads : {1, 2, 4}) {
    GroupClient client(
        13, {.options = {{"episode_length", std::int64_t{5}}}, .num_threads = num_threads, .padding = 8});
    const std::vector<core::Run> groups = {{0, 4}, {4, 1}, {5, 8}};
    const auto finish = [&](std::uint32_t group, int step) {
      const std::uint32_t resets = client.Wait(group);
      client.CheckGroup(groups[group], SomeActions(13, step), 5, resets);
    };
    for (int step = 0; step < 200; ++step) {
      for (std::uint32_t group = 0; group < groups.size(); ++group) {
        if (step > 0) finish(group, step - 1);
        client.Submit(group, groups[group], SomeActions(13, step));
      }
    }
    for (std::uint32_t group = 0; group < groups.size(); ++group) finish(group, 199);
    CHECK(client.out->PaddingIsUntouched() && client.root->PaddingIsUntouched() &&
          client.recorded.PaddingIsUntouched());
    client.CheckedStep(Op::kStepAndReset, SomeActions(13, 200), nullptr, 5);
  }
}

TEST(TheRulesOfGroups) {
  GroupClient client(4, {.options = {{"gate", true}}});
  const auto chosen = SomeActions(4, 0);
  CHECK_THROWS(PoolError, "group 0 is not in flight", client.Wait(0));
  CHECK_THROWS(PoolError, "group 64 is beyond the last one", client.Submit(64, {0, 2}, chosen));
  CHECK_THROWS(PoolError, "group 64 is not in flight", client.Wait(64));
  CHECK_THROWS(StatusError, "env_index 4 is out of range", client.Submit(0, {2, 3}, chosen));
  CHECK_THROWS(StatusError, "expected", client.Submit(0, {0, 2}, {0, 99, 0, 0}));
  {
    const ClosedGate gate;
    client.Submit(0, {0, 2}, chosen);
    CHECK_THROWS(PoolError, "group 0 is in flight", client.Submit(0, {2, 2}, chosen));
    CHECK_THROWS(PoolError, "env 1 is in flight", client.Submit(1, {1, 2}, chosen));
    CHECK_THROWS(PoolError, "env 0 is in flight", client.Step(chosen));
    CHECK_THROWS(PoolError, "env 0 is in flight", client.Reset());
    CHECK_THROWS(PoolError, "env 0 is in flight", client.pool().Save(0));
  }
  client.CheckGroup({0, 2}, chosen, 0, client.Wait(0));
  const Mask others = {0, 0, 1, 1};
  client.CheckedStep(Op::kStep, chosen, &others);
}

TEST(AnInterruptedWaitLosesNothing) {
  GroupClient client(4, {.options = {{"gate", true}}});
  const auto chosen = SomeActions(4, 0);
  {
    const ClosedGate gate;
    client.Submit(0, {0, 4}, chosen);
    CHECK(IsInterrupted([&] { client.pool().WaitGroup(0, Always); }));
  }
  client.CheckGroup({0, 4}, chosen, 0, client.Wait(0));
}

TEST(AnInterruptedCallLeavesGroupsTheirWork) {
  GroupClient client(8, {.options = {{"gate", true}}, .num_threads = 3});
  const auto chosen = SomeActions(8, 0);
  const Mask others = {0, 0, 0, 0, 1, 1, 1, 1};
  {
    const ClosedGate gate;
    client.Submit(0, {0, 4}, chosen);
    CHECK(test::Eventually(ClosedGate::HoldsAThread));
    client.interrupted = Always;
    while (!IsInterrupted([&] { client.Step(chosen, &others); })) {
    }
    client.interrupted = NeverInterrupted;
  }
  CHECK_EQ(client.Wait(0), 0u);
  client.CheckedReset();
  client.CheckedStep(Op::kStep, chosen);
}

TEST(AFailureInAGroupIsReportedByItsWait) {
  GroupClient client(6, {.options = {{"fail_at_step", std::int64_t{2}}}});
  for (int step = 0; step < 2; ++step) {
    client.Submit(0, {0, 3}, SomeActions(6, step));
    if (step == 0) {
      client.Wait(0);
    } else {
      CHECK_THROWS(EnvFailure, "env 0", client.Wait(0));
    }
  }
  CHECK_THROWS(PoolError, "env 0 has failed", client.Submit(0, {0, 3}, SomeActions(6, 2)));
  client.Submit(0, {3, 3}, SomeActions(6, 0));
  client.Wait(0);
  client.CheckedReset();
}

TEST(APoolWithAGroupInFlightCanBeClosed) {
  const std::weak_ptr<Tensors> owner = [] {
    GroupClient client(4, {.options = {{"gate", true}}});
    auto gate = std::make_unique<ClosedGate>();
    client.Submit(0, {0, 4}, SomeActions(4, 0));
    CHECK(test::Eventually(ClosedGate::HoldsAThread));
    std::weak_ptr<Tensors> out = client.out;
    client.out.reset();
    CHECK(!out.expired());  // the pool's, while its threads write there
    gate.reset();
    client.pool().Close();
    CHECK_THROWS(PoolError, "closed", client.Wait(0));
    return out;
  }();
  CHECK(owner.expired());
}

}  // namespace
}  // namespace torchrl_pool::core
