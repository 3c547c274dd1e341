// Everything at once, at random: calls with masks, costs, sleeps, faults, wrong actions, interrupts, saved
// states, and other threads that interfere. Every number is checked; the sanitizers watch.
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "check.h"
#include "client.h"
#include "concurrency.h"
#include "fixture.h"
#include "pool.h"
#include "storm.h"

namespace torchrl_pool::core {
namespace {

using test::Client;
using test::Counter;
using test::Mask;

constexpr std::int64_t kFailingAction = 9;
constexpr std::int64_t kEpisodeLength = 5;

class Storm : test::Dice {
 public:
  explicit Storm(std::uint32_t seed)
      : Dice(seed),
        n_(1 + Draw(40)),
        client_(DrawConfigs(),
                {.num_threads = static_cast<int>(1 + Draw(6)), .max_episode_steps = kTimeLimit}),
        states_(n_, State::kUnset) {
    client_.interrupted = test::Interrupting;
  }

  void Run() {
    std::atomic<bool> stop{false};
    test::Threads threads;
    threads.Start([&] { Interfere(stop); });
    try {
      for (int i = 0; i < kCalls; ++i) Call();
    } catch (...) {
      stop.store(true);
      throw;
    }
    if (OneIn(3)) client_.pool().Close();
    stop.store(true);
    threads.Join();
  }

 private:
  enum class State { kUnset, kReady, kFailed, kInterrupted };
  static constexpr std::int64_t kTimeLimit = 8;
  static constexpr int kCalls = 60;

  std::vector<std::shared_ptr<const Config>> DrawConfigs() {
    const bool mixed = OneIn(2), sleeps = OneIn(4);
    const std::int64_t cost = OneIn(2) ? 0 : Draw(20'000);
    std::vector<std::shared_ptr<const Config>> configs;
    for (std::uint32_t env = 0; env < n_; ++env) {
      if (env > 0 && !mixed) {
        configs.push_back(configs[0]);
        continue;
      }
      configs.push_back(test::CounterConfig({{"cost_ns", mixed ? std::int64_t{Draw(30'000)} : cost},
                                             {"sleep_us", sleeps && OneIn(5) ? std::int64_t{Draw(1'500)} : 0},
                                             {"fail_on_action", kFailingAction},
                                             {"episode_length", kEpisodeLength}}));
    }
    return configs;
  }

  // Calls that are refused or change nothing.
  void Interfere(const std::atomic<bool>& stop) {
    while (!stop.load()) {
      try {
        test::Save(client_.pool(), 0);
      } catch (const PoolError&) {
      }
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
  }

  // The interfering thread may be inside the pool's lock but never in a call: only this thread calls.
  void Call() {
    test::checks_left.store(OneIn(6) ? static_cast<int>(Draw(3)) : -1);
    const auto memory = client_.out;
    try {
      switch (Draw(9)) {
        case 0:
          Reset();
          break;
        case 1:
          SaveAndLoad();
          break;
        case 2:
          RefusedStep();
          break;
        case 3:
        case 4:
          Step(Op::kStep);
          break;
        case 5:
          StepOrBegin();
          break;
        default:
          Step(Op::kStepAndReset);
      }
    } catch (const Interrupted&) {
      // Without new memory it was still waiting for another call: then this one has not begun.
      if (client_.out != memory) SetState(State::kInterrupted);
    }
  }

  void DrawMask(bool ready_only) {
    mask_.assign(n_, 0);
    const std::uint32_t percent = OneIn(3) ? 100 : Draw(101);
    for (std::uint32_t env = 0; env < n_; ++env) {
      mask_[env] = Draw(100) < percent && (!ready_only || states_[env] == State::kReady);
    }
  }

  void SetState(State state) {
    for (std::uint32_t env = 0; env < n_; ++env) {
      if (mask_[env]) states_[env] = state;
    }
  }

  void DrawActions() {
    actions_.resize(n_);
    const bool faults = OneIn(5);
    for (auto& action : actions_) {
      action = faults && OneIn(10) ? kFailingAction : static_cast<std::int64_t>(Draw(kFailingAction));
    }
  }

  void Reset() {
    DrawMask(false);
    client_.CheckedReset(&mask_);
    SetState(State::kReady);
  }

  void RefusedStep() {
    test::checks_left.store(-1);  // it may wait for the interfering thread before it is refused
    DrawMask(false);
    DrawActions();
    bool refused = false;
    for (std::uint32_t env = 0; env < n_; ++env)
      refused = refused || (mask_[env] && states_[env] != State::kReady);
    client_.Clear();
    if (refused) {
      CHECK_THROWS(PoolError, "env ", Act(Op::kStep));
    } else {
      actions_[n_ - 1] = -1;
      mask_[n_ - 1] = 1;
      if (states_[n_ - 1] != State::kReady) return;
      CHECK_THROWS(StatusError, "'action' of env " + std::to_string(n_ - 1), Act(Op::kStepAndReset));
    }
    for (std::uint32_t env = 0; env < n_; ++env) CHECK(client_.out->IsUntouched(env));
  }

  std::uint32_t Act(Op op) {
    if (op == Op::kStepAndReset) return client_.StepAndReset(actions_, &mask_);
    client_.Step(actions_, &mask_);
    return 0;
  }

  void Step(Op op) {
    DrawMask(true);
    DrawActions();
    client_.Clear();
    std::vector<std::int64_t> failed;
    std::uint32_t resets = 0;
    try {
      resets = Act(op);
    } catch (const EnvFailure& e) {
      for (const EnvFault& fault : e.faults) failed.push_back(fault.env_index);
    }
    std::vector<std::int64_t> expected;
    for (std::uint32_t env = 0; env < n_; ++env) {
      if (mask_[env] && actions_[env] == kFailingAction) expected.push_back(env);
    }
    CHECK_EQ(failed, expected);
    // The others have been stepped; the failed ones are cleared.
    Mask stepped = mask_;
    for (const std::int64_t env : failed) {
      const auto index = static_cast<std::uint32_t>(env);
      CHECK(client_.out->IsZero(index));
      if (op == Op::kStepAndReset) CHECK(client_.root->IsZero(index));
      states_[index] = State::kFailed;
      stepped[index] = 0;
    }
    if (failed.empty()) {
      client_.CheckStepped(op, actions_, &stepped, kEpisodeLength, 0, resets);
    } else {
      CheckOthers(op, stepped);
    }
  }

  // As Client::CheckStepped, for a step in which envs have failed: then the root is not completed.
  void CheckOthers(Op op, const Mask& stepped) {
    for (std::uint32_t env = 0; env < n_; ++env) {
      if (!stepped[env]) continue;
      Counter& model = client_.models[env];
      model.Step(actions_[env]);
      const bool terminated = model.steps == kEpisodeLength, truncated = model.steps >= kTimeLimit;
      client_.CheckRow(*client_.out, env, true, terminated, truncated);
      if (op == Op::kStep || !(terminated || truncated)) continue;
      model.Reset();
      client_.CheckRow(*client_.root, env, false, false, false);
    }
  }

  // Those that have failed begin, and some others.
  void StepOrBegin() {
    for (const State state : states_) {
      if (state == State::kUnset || state == State::kInterrupted) return Reset();  // the models know no more
    }
    DrawActions();
    Mask begins(n_);
    mask_.assign(n_, 1);
    for (std::uint32_t env = 0; env < n_; ++env) {
      begins[env] = states_[env] == State::kFailed || OneIn(3);
      if (actions_[env] == kFailingAction) actions_[env] = 0;
      if (begins[env]) actions_[env] = -1;  // which no env takes
    }
    client_.CheckedStepOrBegin(actions_, begins, kEpisodeLength);
    SetState(State::kReady);
  }

  void SaveAndLoad() {
    const std::uint32_t from = Draw(n_), to = Draw(n_);
    if (states_[from] != State::kReady) return;
    try {
      test::Load(client_.pool(), to, test::Save(client_.pool(), from));
    } catch (const PoolError& e) {
      CHECK(std::string(e.what()).find("still at work") != std::string::npos);
      return;
    }
    client_.models[to] = client_.models[from];
    states_[to] = State::kReady;
  }

  const std::uint32_t n_;
  Client client_;
  std::vector<State> states_;
  Mask mask_;
  std::vector<std::int64_t> actions_;
};

TEST(SurvivesAStorm) { test::RunStorms<Storm>(300); }

}  // namespace
}  // namespace torchrl_pool::core
