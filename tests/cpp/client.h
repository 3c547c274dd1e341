// A caller of a pool of "Counter-v0" envs, which knows what the pool has to give.
#ifndef TORCHRL_POOL_TESTS_CLIENT_H_
#define TORCHRL_POOL_TESTS_CLIENT_H_

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "calls.h"
#include "check.h"
#include "counter.h"
#include "errors.h"
#include "fixture.h"
#include "pool.h"

namespace torchrl_pool::test {

using Mask = std::vector<std::uint8_t>;

template <class Function>
bool IsInterrupted(Function&& function) {
  try {
    function();
  } catch (const core::Interrupted&) {
    return true;
  }
  return false;
}

// The thread's own seed for env i is kFirstSeed + i.
constexpr std::uint32_t kFirstSeed = 1000;

struct ClientOptions {
  Options options = {};  // of every env
  int num_threads = 2;
  std::int64_t max_episode_steps = 0;
  std::size_t padding = 0;  // bytes between rows
  std::vector<std::string> info_keys = {};
  std::optional<std::chrono::milliseconds> step_timeout = {};
};

class Client {
 public:
  Client(std::uint32_t num_envs, const ClientOptions& options)
      : Client(std::vector(num_envs, CounterConfig(options.options)), options) {}

  Client(const std::vector<std::shared_ptr<const core::Config>>& configs, const ClientOptions& options)
      : models(configs.size()),
        pool_(MakePool(configs, options)),
        max_episode_steps_(options.max_episode_steps) {
    const core::Layout& layout = pool_->layout();
    actions = std::make_shared<Tensors>(layout.actions, configs.size(), options.padding);
    out = std::make_shared<Tensors>(layout.outputs, configs.size(), options.padding);
    root = std::make_shared<Tensors>(layout.outputs, configs.size(), options.padding);
  }

  ~Client() { Retire(); }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  core::Pool& pool() { return *pool_; }
  bool Retire() { return core::Pool::Retire(std::move(pool_), NeverInterrupted); }
  std::uint32_t size() const { return pool_->num_envs(); }

  // ---- raw calls ------------------------------------------------------------------------------

  void Reset(const Mask* mask = nullptr, bool seed = true) {
    core::Job& job = pool_->Begin(core::Op::kReset);
    if (seed) {
      for (std::uint32_t env = 0; env < size(); ++env) job.entropy.push_back({kFirstSeed + env});
    }
    Run(job, mask);
  }

  void Step(const std::vector<std::int64_t>& chosen, const Mask* mask = nullptr) {
    Act(core::Op::kStep, chosen, mask);
  }

  // Resets the envs of the mask in place of their steps.
  void StepOrBegin(const std::vector<std::int64_t>& chosen, const Mask& begins) {
    Act(core::Op::kStep, chosen, nullptr, begins);
  }

  std::uint32_t StepAndReset(const std::vector<std::int64_t>& chosen, const Mask* mask = nullptr) {
    return Act(core::Op::kStepAndReset, chosen, mask);
  }

  // Several steps in a row, by a vector of actions for each; `out` has a row for each step of each env then.
  void Steps(const std::vector<std::vector<std::int64_t>>& chosen) {
    core::Job& job = pool_->Begin(core::Op::kSteps);
    job.num_steps = static_cast<std::uint32_t>(chosen.size());
    actions = std::make_shared<Tensors>(pool_->layout().actions, size() * job.num_steps);
    out = std::make_shared<Tensors>(pool_->layout().outputs, size() * job.num_steps);
    for (std::uint32_t row = 0; row < size() * job.num_steps; ++row) {
      actions->Set("action", row, 0, chosen[row % job.num_steps][row / job.num_steps]);
    }
    actions->BindTo(job.actions);
    Run(job, nullptr);
  }

  // ---- calls whose every number is checked ----------------------------------------------------

  void CheckedReset(const Mask* mask = nullptr, bool seed = true) {
    Clear();
    Reset(mask, seed);
    for (std::uint32_t env = 0; env < size(); ++env) {
      if (!Selected(mask, env)) {
        CHECK(out->IsUntouched(env));
        continue;
      }
      if (seed) models[env].Seed(kFirstSeed + env);
      models[env].Reset();
      CheckRow(*out, env, false, false, false);
    }
    CHECK(out->PaddingIsUntouched());
  }

  // `terminates` and `truncates` are the options episode_length and truncate_at of the envs.
  void CheckedStep(core::Op op, const std::vector<std::int64_t>& chosen, const Mask* mask = nullptr,
                   std::int64_t terminates = 0, std::int64_t truncates = 0) {
    Clear();
    const std::uint32_t resets = Act(op, chosen, mask);
    CheckStepped(op, chosen, mask, terminates, truncates, resets);
  }

  void CheckedStepOrBegin(const std::vector<std::int64_t>& chosen, const Mask& begins,
                          std::int64_t terminates = 0) {
    Clear();
    StepOrBegin(chosen, begins);
    for (std::uint32_t env = 0; env < size(); ++env) {
      const bool is_step = begins[env] == 0;
      Counter& model = models[env];
      is_step ? model.Step(chosen[env]) : model.Reset();
      const bool truncated = max_episode_steps_ > 0 && model.steps >= max_episode_steps_;
      CheckRow(*out, env, is_step, is_step && model.steps == terminates, truncated);
    }
    CHECK(out->PaddingIsUntouched());
  }

  void CheckStepped(core::Op op, const std::vector<std::int64_t>& chosen, const Mask* mask,
                    std::int64_t terminates, std::int64_t truncates, std::uint32_t resets) {
    std::uint32_t expected_resets = 0;
    std::vector<bool> is_done(size());
    for (std::uint32_t env = 0; env < size(); ++env) {
      if (!Selected(mask, env)) continue;
      Counter& model = models[env];
      model.Step(chosen[env]);
      const bool terminated = model.steps == terminates;
      const bool truncated =
          model.steps == truncates || (max_episode_steps_ > 0 && model.steps >= max_episode_steps_);
      CheckRow(*out, env, true, terminated, truncated);
      is_done[env] = terminated || truncated;
      if (!is_done[env] || op == core::Op::kStep) continue;
      ++expected_resets;
      model.Reset();
      CheckRow(*root, env, false, false, false);
    }
    CHECK_EQ(resets, expected_resets);
    for (std::uint32_t env = 0; env < size(); ++env) {
      if (!Selected(mask, env)) {
        CHECK(out->IsUntouched(env) && root->IsUntouched(env));
      } else if (!is_done[env]) {
        // Where one row of the root was written, all of them were.
        if (resets > 0 && op == core::Op::kStepAndReset) {
          CheckRow(*root, env, true, false, false);
        } else {
          CHECK(root->IsUntouched(env));
        }
      }
    }
    CHECK(out->PaddingIsUntouched() && root->PaddingIsUntouched());
  }

  void CheckRow(const Tensors& tensors, std::uint32_t env, bool stepped, bool terminated,
                bool truncated) const {
    const auto count = models[env].Observe();
    CHECK_EQ(tensors.Values<std::int64_t>("count", env), std::vector(count.begin(), count.end()));
    if (stepped) CHECK_EQ(tensors.Get<float>("reward", env), models[env].Reward());
    CHECK_EQ(tensors.Get<std::uint8_t>("terminated", env) != 0, terminated);
    CHECK_EQ(tensors.Get<std::uint8_t>("truncated", env) != 0, truncated);
    CHECK_EQ(tensors.Get<std::uint8_t>("done", env) != 0, terminated || truncated);
  }

  void Clear() {
    out->Clear();
    root->Clear();
  }

  std::vector<Counter> models;
  // Shared, so that a job can keep them alive when a call was interrupted.
  std::shared_ptr<Tensors> actions, out, root;
  core::Pool::InterruptCheck interrupted = NeverInterrupted;
  std::function<void()> meanwhile;

 private:
  static std::unique_ptr<core::Pool> MakePool(const std::vector<std::shared_ptr<const core::Config>>& configs,
                                              const ClientOptions& options) {
    std::vector<core::EnvRequest> envs;
    for (const auto& config : configs) envs.push_back({config, options.max_episode_steps});
    core::PoolOptions pool_options;
    pool_options.threads.num_threads = options.num_threads;
    pool_options.layout.info_keys = options.info_keys;
    pool_options.threads.step_timeout = options.step_timeout;
    return core::Pool::Open(std::move(envs), pool_options, NeverInterrupted);
  }

  static bool Selected(const Mask* mask, std::uint32_t env) { return !mask || (*mask)[env] != 0; }

  std::uint32_t Act(core::Op op, const std::vector<std::int64_t>& chosen, const Mask* mask,
                    const Mask& begins = {}) {
    core::Job& job = pool_->Begin(op);
    job.begins = begins;
    for (std::uint32_t env = 0; env < size(); ++env) actions->Set("action", env, 0, chosen[env]);
    actions->BindTo(job.actions);
    if (op == core::Op::kStepAndReset) root->BindTo(job.root);
    return Run(job, mask);
  }

  // As the Python bindings do it: what an interrupted call writes to must live on.
  std::uint32_t Run(core::Job& job, const Mask* mask) {
    out->BindTo(job.out);
    const auto owner = std::make_shared<std::vector<std::shared_ptr<Tensors>>>(
        std::vector<std::shared_ptr<Tensors>>{actions, out, root});
    job.owner = owner;
    if (mask) pool_->Select(job, mask->data());
    pool_->Submit(job, core::Delivery::kAwaited, interrupted);  // where it is interrupted nothing has begun
    try {
      return pool_->Wait(job, interrupted, meanwhile);
    } catch (const core::Interrupted&) {
      actions = std::make_shared<Tensors>(pool_->layout().actions, size());
      out = std::make_shared<Tensors>(pool_->layout().outputs, size());
      root = std::make_shared<Tensors>(pool_->layout().outputs, size());
      throw;
    } catch (const core::EnvFailure& e) {
      if (std::any_of(e.faults.begin(), e.faults.end(), [](const auto& fault) { return fault.hung; })) {
        actions = std::make_shared<Tensors>(*actions);
        out = std::make_shared<Tensors>(*out);
        root = std::make_shared<Tensors>(*root);
      }
      throw;
    }
  }

  std::unique_ptr<core::Pool> pool_;
  std::int64_t max_episode_steps_;
};

// Actions that differ from env to env and from step to step.
inline std::vector<std::int64_t> SomeActions(std::uint32_t num_envs, int step) {
  std::vector<std::int64_t> chosen(num_envs);
  for (std::uint32_t env = 0; env < num_envs; ++env) chosen[env] = (env * 7 + step * 3) % kCounterActions;
  return chosen;
}

// Selects about `percent` of the rows, differently at every step.
inline Mask SomeMask(std::uint32_t num_envs, int step, unsigned percent) {
  Mask mask(num_envs);
  for (std::uint32_t env = 0; env < num_envs; ++env) {
    mask[env] = (env * 2654435761u + static_cast<unsigned>(step) * 40503u) / 7 % 100 < percent;
  }
  return mask;
}

}  // namespace torchrl_pool::test

#endif  // TORCHRL_POOL_TESTS_CLIENT_H_
