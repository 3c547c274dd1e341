// HumanoidStandup: stand up from the floor. Reference: gymnasium/envs/mujoco/humanoidstandup_v5.py, _v4.py.
#include <array>
#include <limits>

#include "humanoid_robot.h"

namespace torchrl_pool::mujoco {
namespace {

template <int version>
class HumanoidStandup : public HumanoidRobot {
 public:
  struct Options : HumanoidRobotOptions {
    double uph_cost_weight = 1;
    double impact_cost_weight = 0.5e-6;
    std::array<double, 2> impact_cost_range{-std::numeric_limits<double>::infinity(), 10.0};

    Options() : HumanoidRobotOptions(version, "humanoidstandup.xml", 0.8925) {}

    template <class Visitor>
    void Visit(Visitor& visit) {
      if constexpr (version >= 5) {
        VisitModel(visit);
        VisitCamera(visit);
        visit("uph_cost_weight", uph_cost_weight, "accepted and without effect, as in the reference");
        visit("ctrl_cost_weight", ctrl_cost_weight, "weight of the control cost");
        visit("impact_cost_weight", impact_cost_weight, "weight of the impact cost");
        visit("impact_cost_range", impact_cost_range, "to what the impact cost is clipped");
        VisitNoiseAndExclude(visit);
        VisitIncludes(visit);
      }
      VisitView(visit);
    }
  };

  // Version 4 has the first three of the infos.
  enum Output {
    kObservation,
    kRewardUp,
    kRewardCtrl,
    kRewardImpact,
    kXPosition,
    kYPosition,
    kZDistance,
    kTendonLength,
    kTendonVelocity
  };

  static Specs MakeSpecs(const Options& options) {
    Specs specs = {options.ObservationSpec(), ScalarInfo("reward_linup", "part of the reward for height"),
                   ScalarInfo("reward_quadctrl", "part of the reward for small controls"),
                   ScalarInfo("reward_impact", "part of the reward for small forces")};
    if (version >= 5) {
      specs.push_back(ScalarInfo("x_position", "position (m)"));
      specs.push_back(ScalarInfo("y_position", "position (m)"));
      specs.push_back(ScalarInfo("z_distance_from_origin", "height above the initial one (m)"));
      options.AddTendonSpecs(&specs);
    }
    specs.push_back(options.Control());
    return specs;
  }

  explicit HumanoidStandup(const Options& options) : HumanoidRobot(options), options_(options) {}

  void Reset(Row& row) {
    ResetUniform(options_.reset_noise_scale);
    Observe(row.Out<double>(kObservation));
    ClearInfos(row, kRewardUp, kRewardImpact);
    PutPlace(row);
  }

  Outcome Step(Row& row) {
    StepSimulation(row);
    const double height_reward = (data().qpos[2] - 0) / model().opt.timestep;
    const double control_cost = options_.ctrl_cost_weight * SquaredControls();
    const double impact_cost = ForceCost(options_.impact_cost_weight, options_.impact_cost_range);
    Observe(row.Out<double>(kObservation));
    PutPlace(row);
    PutInfo(row, kRewardUp, height_reward);
    PutInfo(row, kRewardCtrl, -control_cost);
    PutInfo(row, kRewardImpact, -impact_cost);
    return {.reward = height_reward - control_cost - impact_cost + 1};
  }

 private:
  void PutPlace(Row& row) const {
    if constexpr (version >= 5) {
      PutInfo(row, kXPosition, data().qpos[0]);
      PutInfo(row, kYPosition, data().qpos[1]);
      PutInfo(row, kZDistance, data().qpos[2] - model().qpos0[2]);
      PutTendons(row, kTendonLength);
    }
  }

  const Options& options_;
};

const TaskInfo kHumanoidStandup{
    .id = "HumanoidStandup-v5", .description = "stand up from the floor", .max_episode_steps = 1000};
const bool registered = Register<HumanoidStandup<5>>(kHumanoidStandup) &&
                        Register<HumanoidStandup<4>>(Version4(kHumanoidStandup));

}  // namespace
}  // namespace torchrl_pool::mujoco
