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
  void NobodyWants(const std::string& name) { job.out.base[out.Column(name)] = nullptr; }

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

TEST(TheTimeLimitTruncates) {
  Visited env(CounterConfig(), {}, 2);
  for (int episode = 0; episode < 2; ++episode) {
    env.Reset(0);
    env.Step();
    CHECK_EQ(Visited::Flags(env.out), "000");
    env.Step();
    CHECK_EQ(Visited::Flags(env.out), "011");
    env.Step();  // whoever steps on is still over the limit
    CHECK_EQ(Visited::Flags(env.out), "011");
  }
}

TEST(TerminatedAndTruncatedMayBothBeTrue) {
  Visited env(CounterConfig({{"episode_length", 2}}), {}, 2);
  env.Reset(0);
  env.Step();
  env.Step();
  CHECK_EQ(Visited::Flags(env.out), "111");
  Visited own(CounterConfig({{"episode_length", 1}, {"truncate_at", 1}}));
  own.Reset(0);
  own.Step();
  CHECK_EQ(Visited::Flags(own.out), "111");
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

TEST(NativeKeysFollowTheEpisode) {
  Visited env(CounterConfig({{"episode_length", 3}}), kNativeKeys);
  for (int episode = 0; episode < 2; ++episode) {
    env.Reset(0);
    CHECK_EQ(env.out.Get<std::int64_t>("step_count", 1), 0);
    CHECK_EQ(env.out.Get<float>("episode_reward", 1), 0.0f);
    CHECK_EQ(int{env.out.Get<std::uint8_t>("is_init", 1)}, 1);
    float sum = 0;
    for (int step = 1; step <= 2; ++step) {
      env.Step(step);
      sum += env.out.Get<float>("reward", 1);
      CHECK_EQ(env.out.Get<std::int64_t>("step_count", 1), step);
      CHECK_EQ(env.out.Get<float>("episode_reward", 1), sum);
      CHECK_EQ(int{env.out.Get<std::uint8_t>("is_init", 1)}, 0);
    }
  }
  env.Step(0, Op::kStepAndReset);
  CHECK_EQ(env.out.Get<std::int64_t>("step_count", 1), 3);
  CHECK_EQ(env.root.Get<std::int64_t>("step_count", 1), 0);
  CHECK_EQ(env.root.Get<float>("episode_reward", 1), 0.0f);
  CHECK_EQ(int{env.root.Get<std::uint8_t>("is_init", 1)}, 1);
}

TEST(PicturesShowTheObservationBesideThem) {
  for (const bool pixels_only : {false, true}) {
    Visited env(CounterConfig({{"episode_length", 3}}),
                {.info_keys = {}, .one_hot = false, .from_pixels = true, .pixels_only = pixels_only});
    CHECK_EQ(env.layout.outputs[env.out.Column("pixels")].spec.shape, (Longs{1, 2, 3}));
    CHECK_EQ(env.layout.targets[0].column == Target::kNoColumn, pixels_only);
    env.Reset(0);
    for (int step = 1; step <= 3; ++step) {
      CHECK_EQ(env.Step(1, Op::kStepAndReset), step < 3 ? Result::kOk : Result::kReset);
      CHECK_EQ(env.out.Values<std::uint8_t>("pixels", 1),
               std::vector<std::uint8_t>(6, static_cast<std::uint8_t>(step)));
    }
    CHECK_EQ(env.root.Values<std::uint8_t>("pixels", 1), std::vector<std::uint8_t>(6, 0));
    env.NobodyWants("pixels");
    CHECK_EQ(env.Step(1), Result::kOk);
  }
}

TEST(ATaskWithoutPicturesHasNoPixels) {
  CHECK_THROWS(StatusError, "'Kinds-v0' cannot be rendered",
               Layout(*KindsConfig(), {.info_keys = {}, .one_hot = false, .from_pixels = true}));
}

TEST(SumsTheRewardsOfEveryAgent) {
  Visited env(KindsConfig(), {.info_keys = {"agents/episode_reward"}, .one_hot = false});
  env.Reset(0);
  env.Run(Op::kStep);
  CHECK_EQ(env.out.Values<float>("agents/episode_reward", 1), (Floats{510, 511}));
  env.NobodyWants("agents/reward");  // summed all the same
  env.Run(Op::kStep);
  CHECK_EQ(env.out.Values<float>("agents/episode_reward", 1), (Floats{1030, 1032}));
  CHECK(env.out.IsFilledWith(Tensors::kUntouched, env.out.Column("agents/reward"), 1));
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

TEST(InfoIsWrittenWhereAskedFor) {
  Visited env(KindsConfig(), {.info_keys = {"info64"}, .one_hot = false, .obs_dtype = TRP_FLOAT32});
  env.Reset(0);
  CHECK_EQ(env.out.Get<double>("info64", 1), 400.0);
}

TEST(ConvertsFloatingPointObservations) {
  Visited f32(KindsConfig(), {.info_keys = {}, .one_hot = false, .obs_dtype = TRP_FLOAT32});
  f32.Reset(0);
  f32.Run(Op::kStep);
  CHECK_EQ(f32.out.Values<float>("nested/float64", 1), (Floats{10, 11, 12, 13, 14, 15}));
  CHECK_EQ(f32.out.Values<float>("vector", 1), (Floats{110, 111}));
  Visited f64(KindsConfig(), {.info_keys = {}, .one_hot = false, .obs_dtype = TRP_FLOAT64});
  f64.Reset(0);
  CHECK_EQ(f64.out.Values<double>("vector", 1), (Doubles{100, 101}));
  CHECK_EQ(f64.out.Values<double>("nested/float64", 1), (Doubles{0, 1, 2, 3, 4, 5}));
}

TEST(ConvertsIntoTheRootToo) {
  Visited env(KindsConfig(), {.info_keys = {}, .one_hot = false, .obs_dtype = TRP_FLOAT32});
  env.Reset(0);
  env.actions.Set<std::int64_t>("flags", 1, 0, 1);
  CHECK_EQ(env.Run(Op::kStepAndReset), Result::kReset);
  CHECK_EQ(env.out.Values<float>("nested/float64", 1), (Floats{10, 11, 12, 13, 14, 15}));
  CHECK_EQ(env.root.Values<float>("nested/float64", 1), (Floats{0, 1, 2, 3, 4, 5}));
}

TEST(SkipsColumnsThatNobodyWants) {
  Visited env(KindsConfig(), {.info_keys = {"step_count"}, .one_hot = false, .obs_dtype = TRP_FLOAT32});
  for (auto& base : env.job.out.base) base = nullptr;
  CHECK_EQ(env.Reset(0), Result::kOk);
  CHECK_EQ(env.Run(Op::kStep), Result::kOk);
  CHECK(env.out.IsUntouched(1));
}

TEST(DecodesOneHotActions) {
  Visited env(KindsConfig(), {.info_keys = {}, .one_hot = true});
  env.Reset(0);
  const auto choose = [&](Longs hot) {
    for (std::size_t i = 0; i < 4; ++i) env.actions.Set("flags", 1, i, hot[i]);
    env.Run(Op::kStep);
    return Visited::Flags(env.out);
  };
  CHECK_EQ(choose({1, 0, 1, 0}), "000");
  CHECK_EQ(choose({0, 1, 1, 0}), "101");
  CHECK_EQ(choose({1, 0, 0, 1}), "011");
  CHECK_EQ(choose({0, 1, 0, 1}), "111");
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

TEST(WritesDiscreteObservationsAsNumbers) {
  Visited env(test::MakeConfig("raw_plugin", "Category-v0"), {.info_keys = {}, .one_hot = false});
  for (int i = 0; i < 3; ++i) CHECK_EQ(env.Reset(0), Result::kOk);
  CHECK_EQ(env.out.Values<std::int64_t>("x", 1), (Longs{2, 2}));
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
