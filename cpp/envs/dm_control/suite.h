// What all tasks of the suite have in common. A domain is a class:
//
//   class Cheetah {
//    public:
//     Cheetah(const mjModel& model, const std::string& task);       // looks up what it needs, once; or takes
//                                                                   // a Physics, in the initial state
//     static constexpr double kControlTimestep = 0.02;              // seconds; may be left out: one step
//     void Prepare(Physics& physics) const;                         // may be left out: arrays to own
//     void Load(Physics& physics, LegacyRng random) const;          // may be left out: what is drawn at load
//     void Initialize(Physics& physics, LegacyRng& random) const;
//     void Observe(const Physics& physics, Observer& observe) const;
//     double Reward(const Physics& physics) const;
//     bool Terminates(const Physics& physics) const;                // may be left out: never
//   };
//   const bool registered = RegisterTasks<Cheetah>("cheetah", {{"run", "run with a planar two-legged
//   robot"}});
//
// Reference: dm_control/rl/control.py and dm_control/suite/base.py, version 1.0.50.
#ifndef TORCHRL_POOL_ENVS_DM_CONTROL_SUITE_H_
#define TORCHRL_POOL_ENVS_DM_CONTROL_SUITE_H_

#include <algorithm>
#include <initializer_list>
#include <numbers>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "numpy_blas.h"
#include "observer.h"
#include "physics.h"
#include "renderer.h"
#include "reward_colors.h"
#include "rewards.h"
#include "torchrl_pool/env.h"

namespace torchrl_pool::dm_control {

constexpr double kPi = std::numbers::pi;

struct SuiteOptions {
  bool flatten = false;
  bool physics_errors = true;
  std::optional<std::int64_t> n_sub_steps;
  std::int64_t width = 320;
  std::int64_t height = 240;
  IntOrString camera_id = std::int64_t{0};
  bool visualize_reward = false;

  // What Open makes of them.
  std::string task;
  Model model = nullptr;
  mujoco::View view = {};
  std::optional<RewardColors> reward_colors;
  std::vector<Entry> entries;

  template <class Visitor>
  void Visit(Visitor& visit) {
    const Limits<std::int64_t> positive{.choices = {}, .minimum = 1, .maximum = 16384};
    visit("flatten", flatten, "one entry \"observation\" with all numbers instead of an entry for each kind");
    visit("physics_errors", physics_errors,
          "fail where MuJoCo warns, of a diverging simulation say, as dm_control's PhysicsError");
    visit("n_sub_steps", n_sub_steps, "simulation steps per step; None: the task's", positive);
    visit("width", width, "width of pictures (pixels)", positive);
    visit("height", height, "height of pictures (pixels)", positive);
    visit("camera_id", camera_id, "the camera to look through, by number or by name; -1: the free camera");
    visit("visualize_reward", visualize_reward, "show the reward in the colours of pictures");
  }

  Specs MakeSpecs() const;

 protected:
  // id: "dm_control/<domain>-<task>-v0".
  void Load(const std::string& id, double control_timestep);

 private:
  void OpenView();
};

// As randomizers.randomize_limited_and_rotational_joints.
void RandomizeJoints(Physics& physics, LegacyRng& random);
// random.randn(size) / norm.
void RandomDirection(LegacyRng& random, int size, double* out);

template <class Domain>
class SuiteEnv {
 public:
  struct Options : SuiteOptions {
    std::optional<Domain> domain;

    void Open(const std::string& id) {
      double control_timestep = 0;
      if constexpr (requires { Domain::kControlTimestep; }) control_timestep = Domain::kControlTimestep;
      Load(id, control_timestep);
      Physics physics(model);
      physics.Reset();
      if constexpr (std::is_constructible_v<Domain, Physics&, std::string&>) {
        domain.emplace(physics, task);
      } else {
        domain.emplace(*model, task);
      }
      Observer note(&entries);
      domain->Observe(physics, note);
    }
  };

  static Specs MakeSpecs(const Options& options) { return options.MakeSpecs(); }
  static ImageSize RenderSize(const Options& options) { return {options.height, options.width}; }

  explicit SuiteEnv(const Options& options)
      : options_(options), domain_(*options.domain), physics_(options.model) {
    const std::int64_t num_colors = 4 * physics_.model().nmat;
    if (options_.reward_colors) physics_.Own(&mjModel::mat_rgba, num_colors, {{0, num_colors}});
    if constexpr (requires { domain_.Prepare(physics_); }) domain_.Prepare(physics_);
  }

  void Seed(Entropy entropy) {
    random_ = LegacyRng(entropy);
    if constexpr (requires { domain_.Load(physics_, random_); }) domain_.Load(physics_, random_);
  }

  void Reset(Row& row) {
    physics_.Reset();
    domain_.Initialize(physics_, random_);
    if (options_.reward_colors) {
      physics_.SensePlaces();
      ShowReward(domain_.Reward(physics_));
    }
    physics_.Forward();
    if (options_.physics_errors) physics_.CheckWarnings();
    Write(row, 1.0);
  }

  Outcome Step(Row& row) {
    std::copy_n(row.Action<double>(), physics_.model().nu, physics_.data().ctrl);
    physics_.Step(*options_.n_sub_steps);
    if (options_.physics_errors) physics_.CheckWarnings();
    bool terminated = false;
    if constexpr (requires { domain_.Terminates(physics_); }) terminated = domain_.Terminates(physics_);
    Write(row, terminated ? 0.0 : 1.0);
    const double reward = domain_.Reward(physics_);
    row.Out<double>(reward_)[0] = reward;
    if (options_.reward_colors) ShowReward(reward);
    return {.terminated = terminated};
  }

  void Render(std::uint8_t* rgb) {
    mujoco::Draw(options_.model, physics_.model(), &physics_.data(), options_.view, rgb);
  }

  template <class Visitor>
  void VisitState(Visitor& visit) {
    visit(random_);
    physics_.VisitState(visit);
  }

 private:
  void ShowReward(double reward) { options_.reward_colors->Show(reward, &physics_.own()); }

  // In the order of MakeSpecs: entries, reward, infos.
  void Write(const Row& row, double discount) const {
    Observer observe(row, options_.flatten);
    domain_.Observe(physics_, observe);
    if (double* out = row.Out<double>(reward_ + 1)) *out = discount;
    if (auto* out = row.Out<std::int64_t>(reward_ + 2)) {
      for (const mjWarningStat& warning : physics_.data().warning) *out++ = warning.number;
    }
  }

  const Options& options_;
  const Domain& domain_;
  const int reward_ = options_.flatten ? 1 : static_cast<int>(options_.entries.size());
  Physics physics_;
  LegacyRng random_;
};

struct TaskName {
  const char* name;
  const char* description;
};

template <class Domain>
bool RegisterTasks(const std::string& domain, std::initializer_list<TaskName> tasks,
                   std::int64_t max_episode_steps = 1000) {
  for (const TaskName& task : tasks) {
    Register<SuiteEnv<Domain>>({.id = "dm_control/" + domain + "-" + task.name + "-v0",
                                .description = task.description,
                                .max_episode_steps = max_episode_steps});
  }
  return true;
}

}  // namespace torchrl_pool::dm_control

#endif  // TORCHRL_POOL_ENVS_DM_CONTROL_SUITE_H_
