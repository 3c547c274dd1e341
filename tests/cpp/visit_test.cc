#include "visit.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "check.h"
#include "fixture.h"

namespace torchrl_pool::core {
namespace {

using test::Counter;
using test::CounterConfig;
using test::KindsConfig;
using test::Tensors;

using Longs = std::vector<std::int64_t>;
using Floats = std::vector<float>;
using Doubles = std::vector<double>;

// One env, visited by hand. It has row 1 of 3; nobody may touch the others.
class Visited {
 public:
  explicit Visited(const std::shared_ptr<const Config>& config, const LayoutOptions& options = {},
                   std::int64_t max_episode_steps = 0)
      : layout(*config, options),
        actions(layout.actions, 3),
        out(layout.outputs, 3, 8),
        root(layout.outputs, 3, 16),
        config_(config),
        scratch_(layout) {
    slot.config = config.get();
    slot.task = &config->task();
    slot.max_episode_steps = max_episode_steps;
    slot.state = state.data();
    for (Batch* batch : {&job.out, &job.root}) *batch = test::MakeBatch(layout.outputs.size());
    job.actions = test::MakeBatch(layout.actions.size());
    actions.BindTo(job.actions);
    out.BindTo(job.out);
    root.BindTo(job.root);
    for (std::size_t i = 0; i < layout.actions.size(); ++i) {
      std::memset(const_cast<std::byte*>(actions.Row(i, 1)), 0, layout.actions[i].row_bytes);
    }
    CHECK_EQ(Run(Op::kCreate), Result::kOk);
  }
  ~Visited() {
    if (slot.env) slot.task->destroy(slot.env);
  }

  // As the executor does it.
  Result Run(Op op) {
    out.Clear();
    root.Clear();
    job.op = op;
    Visitor visitor(layout, job, scratch_);
    Result result = visitor.Visit(1, slot);
    const bool may_reset = result == Result::kOk && op == Op::kStepAndReset;
    if (may_reset && *job.out.Row(layout.done, 1) != std::byte{0}) result = visitor.BeginNext(1, slot);
    for (const Tensors* tensors : {&out, &root}) {
      CHECK(tensors->IsUntouched(0) && tensors->IsUntouched(2) && tensors->PaddingIsUntouched());
    }
    return result;
  }
  // Puts an env of another configuration, of the same layout, in the env's place.
  Result Recreate(std::shared_ptr<const Config> config) {
    slot.task->destroy(slot.env);
    slot.env = nullptr;
    config_ = std::move(config);
    slot.config = config_.get();
    slot.task = &config_->task();
    return Run(Op::kCreate);
  }
  Result Reset(std::uint32_t seed) {
    job.entropy = {{}, {seed}, {}};
    const Result result = Run(Op::kReset);
    job.entropy.clear();
    return result;
  }
  Result Step(std::int64_t action = 0, Op op = Op::kStep) {
    actions.Set<std::int64_t>("action", 1, 0, action);
    return Run(op);
  }
  std::string Error() const { return scratch_.error.message; }

  // terminated, truncated, done
  static std::string Flags(const Tensors& tensors) {
    std::string flags;
    for (const char* name : {"terminated", "truncated", "done"}) {
      flags += test::Show(int{tensors.Get<std::uint8_t>(name, 1)});
    }
    return flags;
  }

  const Layout layout;
  ZeroedBytes state{layout.state_bytes};
  EnvSlot slot{};
  Job job;
  Tensors actions, out, root;

 private:
  std::shared_ptr<const Config> config_;
  Scratch scratch_;
};

TEST(ResetWritesTheFirstObservation) {
  Visited env(CounterConfig());
  CHECK_EQ(env.Reset(5), Result::kOk);
  CHECK_EQ(env.out.Values<std::int64_t>("count", 1), (Longs{5, 1, 0, 0}));
  CHECK_EQ(Visited::Flags(env.out), "000");
  CHECK(env.out.IsFilledWith(Tensors::kUntouched, env.out.Column("reward"), 1));  // a reset has none
  CHECK(env.root.IsUntouched(1));
}

TEST(ResetWithoutEntropyGoesOn) {
  Visited env(CounterConfig());
  env.Reset(5);
  CHECK_EQ(env.Run(Op::kReset), Result::kOk);
  CHECK_EQ(env.out.Values<std::int64_t>("count", 1), (Longs{5, 2, 0, 0}));
}

TEST(SeedsFromTheSystemAtFirst) {
  Visited a(CounterConfig()), b(CounterConfig());
  a.Run(Op::kReset);
  b.Run(Op::kReset);
  CHECK(a.out.Get<std::int64_t>("count", 1) != b.out.Get<std::int64_t>("count", 1));
}

TEST(StepWritesObservationRewardAndFlags) {
  Visited env(CounterConfig());
  env.Reset(5);
  Counter expected;
  expected.Seed(5);
  expected.Reset();
  for (const std::int64_t action : {7, 0, 9}) {
    expected.Step(action);
    CHECK_EQ(env.Step(action), Result::kOk);
    const auto count = expected.Observe();
    CHECK_EQ(env.out.Values<std::int64_t>("count", 1), Longs(count.begin(), count.end()));
    CHECK_EQ(env.out.Get<float>("reward", 1), expected.Reward());
    CHECK_EQ(Visited::Flags(env.out), "000");
    CHECK(env.root.IsUntouched(1));
  }
}

TEST(TheEnvEndsAnEpisode) {
  Visited env(CounterConfig({{"episode_length", 2}, {"truncate_at", 3}}));
  env.Reset(0);
  env.Step();
  CHECK_EQ(Visited::Flags(env.out), "000");
  env.Step();
  CHECK_EQ(Visited::Flags(env.out), "101");
  env.Step();
  CHECK_EQ(Visited::Flags(env.out), "011");
}

TEST(StepAndResetStartsTheNextEpisodeInTheRoot) {
  Visited env(CounterConfig({{"episode_length", 2}}));
  env.Reset(3);
  CHECK_EQ(env.Step(1, Op::kStepAndReset), Result::kOk);
  CHECK(env.root.IsUntouched(1));
  CHECK_EQ(env.Step(1, Op::kStepAndReset), Result::kReset);
  CHECK_EQ(env.out.Values<std::int64_t>("count", 1), (Longs{3, 1, 2, 64}));  // the true last observation
  CHECK_EQ(Visited::Flags(env.out), "101");
  CHECK_EQ(env.root.Values<std::int64_t>("count", 1), (Longs{3, 2, 0, 0}));
  CHECK_EQ(Visited::Flags(env.root), "000");
  CHECK_EQ(env.Step(1, Op::kStepAndReset), Result::kOk);
  CHECK_EQ(env.out.Values<std::int64_t>("count", 1), (Longs{3, 2, 1, 2}));
}

const LayoutOptions kNativeKeys{.info_keys = {"step_count", "episode_reward", "is_init"}, .one_hot = false};

TEST(ATaskWithoutPicturesHasNoPixels) {
  CHECK_THROWS(StatusError, "'Kinds-v0' cannot be rendered",
               Layout(*KindsConfig(), {.info_keys = {}, .one_hot = false, .from_pixels = true}));
}

TEST(WritesEveryKindOfEntry) {
  Visited env(KindsConfig());
  env.Reset(0);
  CHECK_EQ(env.out.Values<double>("nested/float64", 1), (Doubles{0, 1, 2, 3, 4, 5}));
  CHECK(env.out.IsFilledWith(Tensors::kUntouched, env.out.Column("agents/reward"), 1));
  env.Run(Op::kStep);
  CHECK_EQ(env.out.Values<double>("nested/float64", 1), (Doubles{10, 11, 12, 13, 14, 15}));
  CHECK_EQ(env.out.Values<float>("vector", 1), (Floats{110, 111}));
  CHECK_EQ(env.out.Values<std::uint8_t>("pixels", 1)[2], std::uint8_t{12});
  CHECK_EQ(env.out.Values<float>("agents/reward", 1), (Floats{510, 511}));
  CHECK_EQ(env.out.Values<std::uint8_t>("agents/done", 1), (std::vector<std::uint8_t>{1, 1}));
}

TEST(ALimitEndsTheEpisodesOfAgents) {
  using Flags = std::vector<std::uint8_t>;
  const auto after = [](std::int64_t limit, std::int64_t steps, std::int64_t terminates) {
    Visited env(KindsConfig(), {}, limit);
    env.Reset(0);
    for (std::int64_t i = 1; i <= steps; ++i) {
      env.actions.Set<std::int64_t>("flags", 1, 0, i == steps ? terminates : 0);
      CHECK_EQ(env.Run(Op::kStep), Result::kOk);
    }
    return env.out.Values<std::uint8_t>("agents/done", 1);
  };
  CHECK_EQ(after(0, 2, 0), (Flags{0, 1}));  // as the env writes them
  CHECK_EQ(after(0, 2, 1), (Flags{0, 1}));
  CHECK_EQ(after(3, 2, 0), (Flags{0, 1}));
  CHECK_EQ(after(2, 2, 0), (Flags{1, 1}));
  CHECK_EQ(after(3, 2, 1), (Flags{1, 1}));
}

TEST(SkipsColumnsThatNobodyWants) {
  Visited env(KindsConfig(), {.info_keys = {"step_count"}, .one_hot = false, .obs_dtype = TRP_FLOAT32});
  for (auto& base : env.job.out.base) base = nullptr;
  CHECK_EQ(env.Reset(0), Result::kOk);
  CHECK_EQ(env.Run(Op::kStep), Result::kOk);
  CHECK(env.out.IsUntouched(1));
}

TEST(WritesDiscreteObservationsOneHot) {
  Visited env(test::MakeConfig("raw_plugin", "Category-v0"), {.info_keys = {}, .one_hot = true});
  CHECK_EQ(env.Reset(0), Result::kOk);
  CHECK_EQ(env.out.Values<std::int64_t>("x", 1), (Longs{1, 0, 1, 0, 0, 0}));
  CHECK_EQ(env.Reset(0), Result::kOk);
  CHECK_EQ(env.out.Values<std::int64_t>("x", 1), (Longs{0, 1, 0, 1, 0, 0}));
  CHECK(env.out.IsUntouched(0));
  CHECK_EQ(env.Reset(0), Result::kFailed);  // 2 of two
  CHECK_EQ(env.Error(), "the env wrote 2 to 'x', expected one of 0 to 1");
  CHECK_EQ(env.Reset(0), Result::kFailed);
  CHECK_EQ(env.Error(), "the env wrote -1 to 'x', expected one of 0 to 1");
}

TEST(AResetSaysWhetherTheEpisodeIsOverAlready) {
  Visited env(test::MakeConfig("raw_plugin", "ResetStatus-v0"), {});
  using Flags = std::vector<std::uint8_t>;
  for (const auto& due : {Flags{0, 0, 0}, Flags{1, 0, 1}, Flags{0, 1, 1}, Flags{1, 1, 1}}) {
    CHECK_EQ(env.Reset(0), Result::kOk);
    Flags flags;
    for (const char* name : {"terminated", "truncated", "done"}) {
      flags.push_back(env.out.Values<std::uint8_t>(name, 1)[0]);
    }
    CHECK_EQ(flags, due);
  }
  for (int i = 0; i < 4; ++i) CHECK_EQ(env.Reset(0), Result::kFailed);  // -1, 9, 12, 263
}

TEST(AFailedStepLeavesZeros) {
  Visited env(KindsConfig({{"fail_at_step", 2}}), {.info_keys = {"step_count"}, .one_hot = false});
  env.Reset(0);
  CHECK_EQ(env.Run(Op::kStep), Result::kOk);
  CHECK_EQ(env.Run(Op::kStep), Result::kFailed);
  CHECK_EQ(env.Error(), "the step fails");
  CHECK(env.out.IsZero(1));
  CHECK(env.root.IsUntouched(1));
  CHECK_EQ(env.Reset(0), Result::kOk);
  CHECK_EQ(env.Run(Op::kStep), Result::kOk);
  CHECK_EQ(env.Run(Op::kStepAndReset), Result::kFailed);
  CHECK(env.out.IsZero(1) && env.root.IsZero(1));
}

TEST(AFailedResetLeavesZeros) {
  Visited env(CounterConfig({{"fail_at_reset", 2}, {"episode_length", 1}}));
  env.Reset(0);
  CHECK_EQ(env.Run(Op::kReset), Result::kFailed);
  CHECK_EQ(env.Error(), "the reset fails");
  CHECK(env.out.IsZero(1));
  env.Reset(0);
  CHECK_EQ(env.Step(0, Op::kStepAndReset), Result::kFailed);
  CHECK_EQ(Visited::Flags(env.out), "101");  // the step itself went well
  CHECK(env.root.IsZero(1));
}

TEST(AFailedSeedLeavesZeros) {
  Visited env(CounterConfig());
  CHECK_EQ(env.Recreate(CounterConfig({{"fail_seed", true}})), Result::kFailed);
  CHECK_EQ(env.Error(), "bad seed");
  CHECK_EQ(env.Reset(0), Result::kFailed);
  CHECK(env.out.IsZero(1));
}

TEST(AFailedCreateLeavesNoEnv) {
  Visited env(CounterConfig());
  CHECK_EQ(env.Recreate(CounterConfig({{"fail_create", true}})), Result::kFailed);
  CHECK_EQ(env.Error(), "no such counter");
  CHECK(env.slot.env == nullptr);
}

}  // namespace
}  // namespace torchrl_pool::core
