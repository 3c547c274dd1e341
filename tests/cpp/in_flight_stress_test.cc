// Every kind of submission at once, at random: envs that are sent and received one by one, jobs that are
// waited for later, calls that are interrupted; faults in the middle of a chunk, results that are put back, a
// thread that is held up inside an env, and attempts at envs in flight. Every number is checked; the
// sanitizers watch.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "chain.h"
#include "check.h"
#include "client.h"
#include "concurrency.h"
#include "fixture.h"
#include "held_up.h"
#include "in_flight_model.h"
#include "pool.h"
#include "storm.h"

namespace torchrl_pool::core {
namespace {

using test::At;
using test::Counter;
using test::Env;
using test::Episode;
using test::kEpisodeLength;
using test::kFailingAction;
using test::kSlowAction;
using test::Rows;
using test::Tensors;
using Clock = std::chrono::steady_clock;
using Envs = std::vector<std::uint32_t>;

// The limit is for broken code only.
std::atomic<Clock::time_point> give_up_at{};
bool InterruptingOrLate() { return test::Interrupting() || Clock::now() > give_up_at.load(); }

// Jobs with it have a phase in which they learn, one after the other.
class Learning final : public Stage {
 public:
  void Run(const StageRows&, When) const override {}
};

class Storm : test::Dice {
 public:
  explicit Storm(std::uint32_t seed)
      : Dice(seed),
        n_(2 + Draw(30)),
        num_threads_(1 + Draw(5)),
        client_(DrawConfigs(), {.num_threads = static_cast<int>(num_threads_)}),
        async_(pool().layout(), n_),
        taken_(pool().layout(), n_),
        envs_(n_) {
    Batch outputs = test::MakeBatch(pool().layout().outputs.size()), roots = outputs;
    async_.out.BindTo(outputs);
    async_.root.BindTo(roots);
    pool().PrepareAsync(outputs, roots);
    learning_.Add(1, std::make_shared<Learning>(), true, true);
    test::TheProbe().exempt.store(std::this_thread::get_id());
    client_.CheckedReset();
  }
  ~Storm() {
    OpenGate();
    client_.Retire();  // its threads write to what goes first
  }

  void Run() {
    static constexpr int kCalls = 300;
    std::atomic<bool> stop{false};
    test::Threads threads;
    threads.Start([&] { Interfere(stop); });
    try {
      for (int i = 0; i < kCalls; ++i) Call();
      OpenGate();
      if (!OneIn(3)) ReceiveAndWaitForAll();
      pool().Close();
    } catch (...) {
      OpenGate();
      stop.store(true);
      throw;
    }
    stop.store(true);
    threads.Join();
  }

 private:
  struct Flight {  // a job that is awaited later
    Job* job;
    Envs envs;
    std::shared_ptr<Rows> rows;
  };
  struct Saved {
    std::vector<std::uint8_t> bytes;
    Counter counter;
  };

  Pool& pool() { return client_.pool(); }

  std::vector<std::shared_ptr<const Config>> DrawConfigs() {
    const std::int64_t costs[] = {0, 0, 1'000, 10'000};
    const std::int64_t cost = costs[Draw(4)], reset_us = OneIn(2) ? 0 : 700;
    const auto config = [&](bool gate) {
      return test::CounterConfig({{"cost_ns", cost},
                                  {"reset_us", reset_us},
                                  {"gate", gate},
                                  {"slow_action", kSlowAction},
                                  {"slow_us", std::int64_t{200}},
                                  {"fail_on_action", kFailingAction},
                                  {"episode_length", kEpisodeLength}});
    };
    std::vector configs(n_, config(false));
    if (num_threads_ > 1 && OneIn(2)) {  // a thread is left
      gated_ = Draw(n_);
      configs[*gated_] = config(true);
    }
    return configs;
  }

  // Calls that are refused or change nothing.
  void Interfere(const std::atomic<bool>& stop) {
    while (!stop.load()) {
      try {
        test::Save(pool(), 0);
      } catch (const PoolError&) {
      }
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
  }

  void Call() {
    give_up_at.store(Clock::now() + std::chrono::seconds(30));
    test::checks_left.store(OneIn(8) ? static_cast<int>(Draw(2)) : -1);
    if (OneIn(10)) std::this_thread::sleep_for(std::chrono::microseconds(Draw(600)));  // threads fall asleep
    try {
      switch (Draw(12)) {
        case 0:
          return SaveAndLoad();
        case 1:
          return gate_closed_ ? OpenGate() : HoldUpAThread();
        case 2:
          return TryWhatIsInFlight();
        case 3:
        case 4:
          return CallAndWait();
        case 5:
          return SubmitForLater();
        case 6:
          return WaitForAFlight();
        case 7:
        case 8:
          return Send(DrawOp(), {});
        default:
          return Receive();
      }
    } catch (const Interrupted&) {
      CHECK(Clock::now() < give_up_at.load());  // threads sleep while there is work
    }
  }

  // ---- what is sent --------------------------------------------------------------------------------

  Op DrawOp() {
    if (OneIn(6) || DrawEnvs(Op::kStep, 100).empty()) return Op::kReset;
    return OneIn(3) ? Op::kStep : Op::kStepAndReset;
  }

  // A reset waits for what was abandoned.
  bool May(Op op, const Env& env) const {
    if (op == Op::kReset) return env.at == At::kRest || env.at == At::kAbandoned;
    return env.at == At::kRest && env.episode == Episode::kGoesOn;
  }

  // Some of the envs that may do this; `percent` of them.
  Envs DrawEnvs(Op op, std::uint32_t percent) {
    Envs chosen;
    for (std::uint32_t env = 0; env < n_; ++env) {
      if (May(op, envs_[env]) && Draw(100) < percent) chosen.push_back(env);
    }
    return chosen;
  }

  // Cheap ones, but at times an env fails and at times one takes long: perhaps the next one of its chunk.
  std::vector<std::int64_t> DrawActions(std::size_t count) {
    std::vector<std::int64_t> actions(count);
    for (auto& action : actions) action = Draw(kSlowAction);
    if (count == 0 || !OneIn(3)) return actions;
    const std::size_t env = Draw(static_cast<std::uint32_t>(count));
    if (!OneIn(3)) actions[(env + 1) % count] = kSlowAction;
    if (!OneIn(3)) actions[env] = kFailingAction;
    return actions;
  }

  void MarkSent(At at, Op op, const Envs& envs, const std::vector<std::int64_t>& actions, bool alone) {
    // Whatever has begun has waited for what was abandoned before.
    for (Env& env : envs_) {
      if (env.at != At::kAbandoned) continue;
      env.at = At::kRest;
      env.episode = Episode::kUnknown;
    }
    const bool held_up = gate_closed_ && gated_ && std::find(envs.begin(), envs.end(), *gated_) != envs.end();
    for (std::size_t i = 0; i < envs.size(); ++i) {
      envs_[envs[i]] = {at, envs_[envs[i]].episode, held_up, op, alone, actions[i]};
    }
  }

  // These envs, or some of those whose number is known (a reset that is sent has no seed).
  void Send(Op op, Envs envs) {
    if (envs.empty()) {
      envs = DrawEnvs(op, OneIn(2) ? 100 : 30);
      std::erase_if(envs, [&](std::uint32_t env) {
        return envs_[env].at == At::kAbandoned || envs_[env].episode == Episode::kUnknown;
      });
    }
    const auto actions = DrawActions(envs.size());
    const bool alone = OneIn(3);
    if (envs.empty()) return;
    const auto* bytes = reinterpret_cast<const std::byte*>(actions.data());
    test::Send(pool(), op, envs, &bytes, alone, InterruptingOrLate);
    MarkSent(At::kSent, op, envs, actions, alone);
  }

  std::shared_ptr<Rows> Begin(Op op, const Envs& envs, const std::vector<std::int64_t>& actions,
                              Job** begun) {
    auto rows = std::make_shared<Rows>(pool().layout(), n_);
    Job& job = pool().Begin(op);
    for (std::size_t i = 0; i < envs.size(); ++i) rows->actions.Set("action", envs[i], 0, actions[i]);
    if (op == Op::kReset) {
      for (std::uint32_t env = 0; env < n_; ++env) job.entropy.push_back({test::kFirstSeed + env});
    }
    // A job that learns waits for all that were submitted before, also for one that the gate holds up.
    if (!gated_ && OneIn(2)) learning_.Extend(job);
    rows->actions.BindTo(job.actions);
    rows->out.BindTo(job.out);
    rows->root.BindTo(job.root);
    job.owner = rows;
    test::Mask mask(n_);
    for (const std::uint32_t env : envs) mask[env] = 1;
    pool().Select(job, mask.data());
    *begun = &job;
    return rows;
  }

  void SubmitForLater() {
    const Op op = DrawOp();
    const Envs envs = DrawEnvs(op, OneIn(2) ? 100 : 30);
    if (envs.empty()) return;
    const auto actions = DrawActions(envs.size());
    Flight flight{nullptr, envs, nullptr};
    flight.rows = Begin(op, envs, actions, &flight.job);
    flight.job->completes_root = op == Op::kStepAndReset && OneIn(2);
    pool().Submit(*flight.job, Delivery::kLater, InterruptingOrLate);
    MarkSent(At::kInJob, op, envs, actions, false);
    flights_.push_back(std::move(flight));
  }

  // What an interrupt leaves behind is not held up, so that it can be waited for.
  void CallAndWait() {
    const Op op = DrawOp();
    Envs envs = DrawEnvs(op, OneIn(2) ? 100 : 30);
    if (gated_) std::erase(envs, *gated_);
    if (envs.empty()) return;
    const auto actions = DrawActions(envs.size());
    Flight flight{nullptr, envs, nullptr};
    flight.rows = Begin(op, envs, actions, &flight.job);
    pool().Submit(*flight.job, Delivery::kAwaited, InterruptingOrLate);
    MarkSent(At::kInJob, op, envs, actions, false);
    const bool fails = OneIn(3);
    try {
      Finish(flight, [&] {
        if (fails) throw Interrupted();
      });
    } catch (const Interrupted&) {
      for (const std::uint32_t env : envs) envs_[env].at = At::kAbandoned;
      if (OneIn(2)) TryWhatIsInFlight();
      throw;
    }
  }

  // ---- what comes back -----------------------------------------------------------------------------

  void WaitForAFlight() {
    if (flights_.empty()) return;
    const std::size_t i = Draw(static_cast<std::uint32_t>(flights_.size()));
    const Flight flight = flights_[i];
    // It may have to learn after an earlier one.
    const auto is_held_up = [&](const Flight& one) { return envs_[one.envs[0]].held_up; };
    if (std::any_of(flights_.begin(), flights_.begin() + static_cast<std::ptrdiff_t>(i) + 1, is_held_up)) {
      OpenGate();
    }
    Finish(flight, nullptr);  // where it is interrupted, it is still in flight
    flights_.erase(flights_.begin() + static_cast<std::ptrdiff_t>(i));
  }

  void Finish(const Flight& flight, const std::function<void()>& meanwhile) {
    Envs expected, failed;
    for (const std::uint32_t env : flight.envs) {
      if (envs_[env].fails()) expected.push_back(env);
    }
    std::uint32_t resets = 0;
    try {
      resets = pool().Wait(*flight.job, InterruptingOrLate, meanwhile);
    } catch (const EnvFailure& e) {
      for (const EnvFault& fault : e.faults) failed.push_back(static_cast<std::uint32_t>(fault.env_index));
    }
    CHECK_EQ(failed, expected);
    std::uint32_t expected_resets = 0;
    for (const std::uint32_t env : flight.envs) {
      if (envs_[env].fails()) {
        CHECK(flight.rows->out.IsZero(env));
        Settle(env, Episode::kFailed);
        continue;
      }
      expected_resets += Follow(env, flight.rows->out, flight.rows->root, env, true);
    }
    if (failed.empty()) CHECK_EQ(resets, expected_resets);
  }

  void Settle(std::uint32_t env, Episode episode) {
    envs_[env].at = At::kRest;
    envs_[env].episode = episode;
    envs_[env].held_up = false;
  }

  // Does to the model what was done to the env, and compares the row that came back. Whether an episode
  // began.
  bool Follow(std::uint32_t env, const Tensors& out, const Tensors& root, std::size_t row, bool seeds) {
    const Env& sent = envs_[env];
    Counter& model = client_.models[env];
    if (sent.op == Op::kReset) {
      if (seeds) model.Seed(test::kFirstSeed + env);
      model.Reset();
      CheckRow(model, out, row, false);
      Settle(env, Episode::kGoesOn);
      return false;
    }
    model.Step(sent.action);
    const bool ends = model.steps == kEpisodeLength;
    CheckRow(model, out, row, ends);
    CHECK_EQ(out.Get<float>("reward", row), model.Reward());
    const bool resets = ends && sent.op == Op::kStepAndReset;
    if (resets) {
      model.Reset();
      CheckRow(model, root, row, false);
    }
    Settle(env, Episode::kGoesOn);
    return resets;
  }

  static void CheckRow(const Counter& model, const Tensors& rows, std::size_t row, bool ends) {
    const auto count = model.Observe();
    CHECK_EQ(rows.Values<std::int64_t>("count", row), std::vector(count.begin(), count.end()));
    CHECK_EQ(rows.Get<std::uint8_t>("done", row) != 0, ends);
  }

  Envs Outstanding(Op op, bool alone, bool held_up_too) const {
    Envs outstanding;
    for (std::uint32_t env = 0; env < n_; ++env) {
      const Env& sent = envs_[env];
      if (sent.at == At::kSent && sent.op == op && sent.alone == alone && (held_up_too || !sent.held_up)) {
        outstanding.push_back(env);
      }
    }
    return outstanding;
  }

  void Receive() {
    for (const Op op : {Op::kReset, Op::kStep, Op::kStepAndReset}) {
      if (!OneIn(3)) ReceiveOp(op);
    }
  }

  void ReceiveOp(Op op) {
    if (OneIn(2)) ReceiveTogether(op);
    const Envs alone = Outstanding(op, true, false);
    if (!alone.empty()) ReceiveAlone(op, OneOf(alone));
  }

  void ReceiveTogether(Op op) {
    const std::size_t outstanding = Outstanding(op, false, true).size();
    const std::size_t surely = Outstanding(op, false, false).size();
    CHECK_THROWS(PoolError, "only " + std::to_string(outstanding) + " are outstanding",
                 pool().Receive(op, outstanding + 1, 0, {}, InterruptingOrLate));
    if (surely == 0) return;
    const std::size_t least = 1 + Draw(static_cast<std::uint32_t>(surely));
    const std::size_t most = OneIn(2) ? 0 : least + Draw(3);
    std::optional<Clock::duration> timeout;
    if (OneIn(4)) timeout = std::chrono::microseconds(Draw(300));
    TakeOrPutBack(op, false, [&] {
      auto received = pool().Receive(op, least, most, timeout, InterruptingOrLate);
      CHECK(timeout || received);
      if (received) CHECK(received->envs.size() >= least && (most == 0 || received->envs.size() <= most));
      return received;
    });
  }

  void ReceiveAlone(Op op, std::uint32_t env) {
    TakeOrPutBack(op, true, [&] {
      auto received = pool().ReceiveAlone(op, env, {}, InterruptingOrLate);
      CHECK_EQ(received.value().envs, Envs{env});
      return received;
    });
  }

  template <class Receiver>
  void TakeOrPutBack(Op op, bool alone, const Receiver& receive) {
    std::optional<Outbox::Received> received;
    try {
      received = receive();
    } catch (const EnvFailure& e) {
      return AfterFaults(op, alone, e.faults);
    }
    if (!received) return;
    for (const std::uint32_t env : received->envs) {
      CHECK(envs_[env].at == At::kSent && envs_[env].op == op && envs_[env].alone == alone);
      CHECK(!envs_[env].fails());
    }
    if (OneIn(5)) return (void)pool().PutBack(*received);  // as after an error between the two
    const std::size_t columns = pool().layout().outputs.size();
    const auto out = Rows::ColumnsOf(taken_.out, columns), root = Rows::ColumnsOf(taken_.root, columns);
    pool().CopyRowsOf(*received, out.data(), root.data());
    pool().Accept(*received);
    if (OneIn(8)) {  // as after an interrupt that comes with the last call
      if (pool().PutBack(*received)) return;
      // Results can only be refused if another thread has taken one of the envs since: `Interfere` saves this
      // one.
      CHECK(std::find(received->envs.begin(), received->envs.end(), 0U) != received->envs.end());
    }
    for (std::size_t k = 0; k < received->envs.size(); ++k) {
      const bool resets = Follow(received->envs[k], taken_.out, taken_.root, k, false);
      CHECK_EQ(received->resets[k] != 0, resets);
    }
  }

  // Whoever hears of a fault may send the env again at once, by whatever road.
  void AfterFaults(Op op, bool alone, std::span<const EnvFault> faults) {
    Envs failed;
    for (const EnvFault& fault : faults) {
      failed.push_back(static_cast<std::uint32_t>(fault.env_index));
      const Env& env = envs_[failed.back()];
      CHECK(env.at == At::kSent && env.op == op && env.alone == alone && env.fails());
      Settle(failed.back(), Episode::kFailed);
    }
    if (!OneIn(4)) Send(Op::kReset, failed);
    if (OneIn(2)) ReceiveOp(Op::kReset);
  }

  void ReceiveAndWaitForAll() {
    test::checks_left.store(-1);
    give_up_at.store(Clock::now() + std::chrono::seconds(30));
    while (!flights_.empty()) WaitForAFlight();
    const auto is_sent = [](const Env& env) { return env.at == At::kSent; };
    while (std::any_of(envs_.begin(), envs_.end(), is_sent)) Receive();
    for (const Env& env : envs_) CHECK(env.at == At::kRest || env.at == At::kAbandoned);
  }

  // ---- what is refused, and what goes on beside -------------------------------------------------------

  void TryWhatIsInFlight() {
    Envs in_flight;
    for (std::uint32_t env = 0; env < n_; ++env) {
      if (envs_[env].at == At::kSent || envs_[env].at == At::kInJob) in_flight.push_back(env);
    }
    if (in_flight.empty()) return;
    std::this_thread::sleep_for(std::chrono::microseconds(Draw(1'000)));
    const std::uint32_t env = OneOf(in_flight);
    if (!saved_.empty()) CHECK_THROWS(PoolError, "", test::Load(pool(), env, saved_[0].bytes));
    CHECK_THROWS(PoolError, "", test::Save(pool(), env));
    const Envs one{env};
    CHECK_THROWS(PoolError, "is in flight", test::Send(pool(), Op::kReset, one, nullptr, false, Late));
  }
  static bool Late() { return Clock::now() > give_up_at.load(); }

  void SaveAndLoad() {
    const std::uint32_t from = Draw(n_), to = Draw(n_);
    if (May(Op::kStep, envs_[from])) {
      saved_.push_back({test::Save(pool(), from), client_.models[from]});
    }
    if (saved_.empty() || envs_[to].at != At::kRest) return;
    const Saved& saved = OneOf(saved_);
    test::Load(pool(), to, saved.bytes);
    client_.models[to] = saved.counter;
    envs_[to].episode = Episode::kGoesOn;
  }

  // A thread is held up in an env, until the gate opens. The others do all other work.
  void HoldUpAThread() {
    if (!gated_ || gate_closed_ || !May(Op::kStep, envs_[*gated_])) return;
    gate_closed_ = true;
    test::TheProbe().gate_closed.store(true);
    Send(Op::kStep, OneIn(2) ? Envs{*gated_} : DrawEnvs(Op::kStep, 30));
  }

  void OpenGate() {
    gate_closed_ = false;
    test::TheProbe().gate_closed.store(false);
    for (Env& env : envs_) env.held_up = false;
  }

  const std::uint32_t n_, num_threads_;
  std::optional<std::uint32_t> gated_;
  bool gate_closed_ = false;
  test::Client client_;
  Rows async_, taken_;
  std::vector<Env> envs_;
  Chain learning_{{client_.pool().layout().outputs.size(), {}, 1, {}, {}}};
  std::vector<Flight> flights_;
  std::vector<Saved> saved_;
};

TEST(SurvivesAStormOfAllThatIsInFlight) { test::RunStorms<Storm>(150); }

}  // namespace
}  // namespace torchrl_pool::core
