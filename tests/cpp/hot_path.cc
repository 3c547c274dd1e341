// CartPole on the hot path, in a loop for tools that count.
//
//   hot_path env STEPS      the env alone, behind the plugin ABI
//   hot_path visit STEPS    and what the executor does for each env
//   hot_path call STEPS [ENVS]    and what it does once for a call, with one env or more: the dispatch
//   hot_path chain STEPS [ENVS]   and TorchRL's counters as stages: StepCounter, RewardSum, InitTracker
//   hot_path async STEPS [ENVS]   sent and received instead
//
// Instructions are those of the function `measured`, which callgrind's --toggle-collect names. Prints the
// compiler, and how often `measured` allocated memory.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "calls.h"
#include "chain.h"
#include "fixture.h"
#include "pool.h"
#include "transforms/init_tracker.h"
#include "transforms/reward_sum.h"
#include "transforms/step_counter.h"
#include "visit.h"

namespace {

std::int64_t allocations = 0;

void* Allocate(std::size_t size) {
  ++allocations;
  if (void* memory = std::malloc(size)) return memory;
  throw std::bad_alloc();
}

}  // namespace

// For the plugin and the C++ library too: the executable's definition comes first. What is aligned beyond
// the usual goes the library's way, and no step needs any.
void* operator new(std::size_t size) { return Allocate(size); }
void* operator new[](std::size_t size) { return Allocate(size); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }

namespace torchrl_pool {
namespace {

constexpr std::int64_t kMaxEpisodeSteps = 500;
constexpr int kWarmUp = 50;  // until the executor knows what a step costs

// Plays left and right in turn, which no pole survives for long: resets are part of the path.
class Subject {
 public:
  virtual ~Subject() = default;
  virtual void Step(std::int64_t steps) = 0;
};

std::int64_t* FirstAction(test::Tensors& actions) {
  return reinterpret_cast<std::int64_t*>(const_cast<std::byte*>(actions.Row(0, 0)));
}

class Env : public Subject {
 public:
  explicit Env(const std::shared_ptr<const core::Config>& config) : config_(config) {
    const std::uint32_t seed = 0;
    Check(task_.create(config->handle(), &env_, &error_));
    Check(task_.seed(env_, &seed, 1, &error_));
    Check(task_.reset(env_, outputs_, &error_));
  }
  ~Env() override { task_.destroy(env_); }

  void Step(std::int64_t steps) override {
    for (std::int64_t i = 0; i < steps; ++i) {
      const std::int64_t chosen = i % 2;
      const void* action = &chosen;
      trp_step_result result{};
      Check(task_.step(env_, &action, outputs_, &result, &error_));
      if (++elapsed_steps_ < kMaxEpisodeSteps && !result.terminated && !result.truncated) continue;
      elapsed_steps_ = 0;
      Check(task_.reset(env_, outputs_, &error_));
    }
  }

 private:
  static void Check(int status) {
    if (status != TRP_OK) std::abort();
  }

  const std::shared_ptr<const core::Config> config_;
  const trp_task& task_ = config_->task();
  float observation_[4];
  float reward_[1];
  void* const outputs_[2] = {observation_, reward_};
  trp_env* env_ = nullptr;
  std::int64_t elapsed_steps_ = 0;
  trp_error error_{};
};

class Visited : public Subject {
 public:
  explicit Visited(const std::shared_ptr<const core::Config>& config)
      : config_(config),
        layout_(*config, {}),
        actions_(layout_.actions, kRows),
        out_(layout_.outputs, kRows),
        root_(layout_.outputs, kRows),
        scratch_(layout_) {
    slot_.config = config.get();
    slot_.task = &config->task();
    slot_.max_episode_steps = kMaxEpisodeSteps;
    for (core::Batch* batch : {&job_.out, &job_.root}) *batch = test::MakeBatch(layout_.outputs.size());
    job_.actions = test::MakeBatch(layout_.actions.size());
    actions_.BindTo(job_.actions);
    out_.BindTo(job_.out);
    root_.BindTo(job_.root);
    Run(core::Op::kCreate);
    job_.entropy = {{0}};
    Run(core::Op::kReset);
  }
  ~Visited() override { slot_.task->destroy(slot_.env); }

  void Step(std::int64_t steps) override {
    job_.op = core::Op::kStepAndReset;
    core::Visitor visitor(layout_, job_, scratch_);  // of many envs in turn, each with a row of its own
    for (std::int64_t i = 0; i < steps; ++i) {
      const auto row = static_cast<std::uint32_t>(i) % kRows;
      action_[row] = i % 2;
      core::Result result = visitor.Visit(row, slot_);
      const bool done = *job_.out.Row(layout_.done, row) != std::byte{0};
      if (result == core::Result::kOk && done) result = visitor.BeginNext(row, slot_);
      if (result == core::Result::kFailed) std::abort();
    }
  }

 private:
  static constexpr std::uint32_t kRows = 2;

  void Run(core::Op op) {
    job_.op = op;
    if (core::Visitor(layout_, job_, scratch_).Visit(0, slot_) == core::Result::kFailed) std::abort();
  }

  const std::shared_ptr<const core::Config> config_;
  const core::Layout layout_;
  test::Tensors actions_, out_, root_;
  std::int64_t* const action_ = FirstAction(actions_);
  core::Scratch scratch_;
  core::Job job_;
  core::EnvSlot slot_{};
};

core::PoolOptions OneThread() {
  core::PoolOptions options;
  options.threads.num_threads = 1;
  return options;
}

class Called : public Subject {
 public:
  Called(const std::shared_ptr<const core::Config>& config, std::size_t num_envs)
      : pool_(core::Pool::Open(std::vector<core::EnvRequest>(num_envs, {config, kMaxEpisodeSteps}),
                               OneThread(), NeverInterrupted)),
        actions_(pool_->layout().actions, num_envs),
        out_(pool_->layout().outputs, num_envs),
        root_(pool_->layout().outputs, num_envs) {
    core::Job& job = pool_->Begin(core::Op::kReset);
    job.entropy.assign(pool_->num_envs(), {0});
    Run(job);
  }

  void Step(std::int64_t steps) override {
    for (std::int64_t i = 0; i < steps; ++i) {
      std::fill_n(action_, pool_->num_envs(), i % 2);
      core::Job& job = pool_->Begin(core::Op::kStepAndReset);
      actions_.BindTo(job.actions);
      root_.BindTo(job.root);
      Complete(job);
      Run(job);
    }
  }

 protected:
  static bool NeverInterrupted() { return false; }

  virtual void Complete(core::Job&) {}

  void Run(core::Job& job) {
    out_.BindTo(job.out);
    pool_->Submit(job, core::Delivery::kAwaited, NeverInterrupted);
    pool_->Wait(job, NeverInterrupted);
  }

  std::unique_ptr<core::Pool> pool_;
  test::Tensors actions_, out_, root_;
  std::int64_t* const action_ = FirstAction(actions_);
};

class Chained : public Called {
 public:
  Chained(const std::shared_ptr<const core::Config>& config, std::size_t num_envs)
      : Called(config, num_envs),
        chain_({.pool = Own(), .columns = {8, 4, 1}, .pool_actions = 1, .carried = {8, 4}, .temps = {}}),
        memory_(6 * num_envs) {
    const core::Layout& layout = pool_->layout();
    const auto add = [&](std::shared_ptr<core::Stage> stage) { chain_.Add(0, std::move(stage), true, true); };
    const std::size_t count = Own(), sum = Own() + 1, is_init = Own() + 2, count_before = Own() + 3;
    add(std::make_shared<core::StepCounterStage>(count_before, count, 0, layout.truncated, layout.done));
    add(std::make_shared<core::RewardSumStage<float>>(out_.Column("reward"), Own() + 4, sum, 1));
    add(std::make_shared<core::InitTrackerStage>(is_init));
  }

 private:
  std::size_t Own() const { return pool_->layout().outputs.size(); }

  // The root of one step is what the next one begins with.
  void Complete(core::Job& job) override {
    chain_.Extend(job);
    for (std::size_t i = 0; i < 3; ++i) {
      job.out.base[Own() + i] = Bytes(i);
      job.root.base[Own() + i] = Bytes(3 + i);
      if (i < 2) job.actions.base[1 + i] = Bytes(3 + i);
    }
  }
  std::byte* Bytes(std::size_t i) {
    return reinterpret_cast<std::byte*>(memory_.data() + i * pool_->num_envs());
  }

  core::Chain chain_;
  std::vector<std::int64_t> memory_;
};

class Async : public Called {
 public:
  Async(const std::shared_ptr<const core::Config>& config, std::size_t num_envs)
      : Called(config, num_envs), taken_(pool_->layout().outputs, num_envs) {
    core::Batch out = test::MakeBatch(pool_->layout().outputs.size()), root = out;
    out_.BindTo(out);
    root_.BindTo(root);
    pool_->PrepareAsync(out, root);
    taken_.BindTo(taken_at_ = out);
    for (std::uint32_t env = 0; env < num_envs; ++env) envs_.push_back(env);
  }

  void Step(std::int64_t steps) override {
    const auto* action = reinterpret_cast<const std::byte*>(action_);
    for (std::int64_t i = 0; i < steps; ++i) {
      std::fill_n(action_, envs_.size(), i % 2);
      test::Send(*pool_, core::Op::kStepAndReset, envs_, &action, false, NeverInterrupted);
      const auto received =
          pool_->Receive(core::Op::kStepAndReset, envs_.size(), 0, std::nullopt, NeverInterrupted);
      test::Take(*pool_, *received, taken_at_.base.data(), taken_at_.base.data());
    }
  }

 private:
  std::vector<std::uint32_t> envs_;
  test::Tensors taken_;
  core::Batch taken_at_;
};

std::unique_ptr<Subject> Make(const std::string& name, std::size_t num_envs) {
  const auto config = test::MakeConfig("libtorchrl_pool_classic", "CartPole-v1");
  if (name == "env") return std::make_unique<Env>(config);
  if (name == "visit") return std::make_unique<Visited>(config);
  if (name == "call") return std::make_unique<Called>(config, num_envs);
  if (name == "chain") return std::make_unique<Chained>(config, num_envs);
  if (name == "async") return std::make_unique<Async>(config, num_envs);
  return nullptr;
}

}  // namespace
}  // namespace torchrl_pool

extern "C" __attribute__((noinline)) void measured(torchrl_pool::Subject& subject, std::int64_t steps) {
  subject.Step(steps);
}

int main(int argc, char** argv) {
  const std::size_t num_envs = argc == 4 ? std::strtoull(argv[3], nullptr, 10) : 1;
  const auto subject = argc == 3 || argc == 4 ? torchrl_pool::Make(argv[1], num_envs) : nullptr;
  if (!subject) return std::fprintf(stderr, "usage: hot_path env|visit|call|chain|async STEPS [ENVS]\n"), 2;
  subject->Step(torchrl_pool::kWarmUp);
  const std::int64_t before = allocations;
  measured(*subject, std::atoll(argv[2]));
#if defined(__clang__)
  std::printf("clang %d\n", __clang_major__);
#else
  std::printf("gcc %d\n", __GNUC__);
#endif
  std::printf("%lld\n", static_cast<long long>(allocations - before));
}
