// What Hopper and Walker2d have in common: a robot in a vertical plane that must stay upright.
#ifndef TORCHRL_POOL_ENVS_MUJOCO_PLANAR_WALKER_H_
#define TORCHRL_POOL_ENVS_MUJOCO_PLANAR_WALKER_H_

#include <array>
#include <string>

#include "gymnasium_env.h"

namespace torchrl_pool::mujoco {

struct PlanarWalkerOptions : GymnasiumOptions {
  double forward_reward_weight = 1.0;
  double ctrl_cost_weight = 1e-3;
  double healthy_reward = 1.0;
  bool terminate_when_unhealthy = true;
  std::array<double, 2> healthy_z_range;
  std::array<double, 2> healthy_angle_range;
  double reset_noise_scale = 5e-3;
  bool exclude_current_positions_from_observation = true;

  PlanarWalkerOptions(const char* xml, double camera_distance, std::array<double, 2> z_range,
                      std::array<double, 2> angle_range)
      : GymnasiumOptions(xml, 4,
                         {{{"trackbodyid", {2}},
                           {"distance", {camera_distance}},
                           {"lookat", {0.0, 0.0, 1.15}},
                           {"elevation", {-20.0}}}}),
        healthy_z_range(z_range),
        healthy_angle_range(angle_range) {}

  // visit_more: visits the options of one task alone, which stand in the middle.
  template <int version, class Visitor, class VisitMore>
  void VisitTask(Visitor& visit, const VisitMore& visit_more) {
    if constexpr (version >= 5) {
      VisitModel(visit);
      VisitCamera(visit);
    }
    visit("forward_reward_weight", forward_reward_weight, "weight of the forward reward");
    visit("ctrl_cost_weight", ctrl_cost_weight, "weight of the control cost");
    visit("healthy_reward", healthy_reward, "reward for each step in which the robot is healthy");
    visit("terminate_when_unhealthy", terminate_when_unhealthy, "end the episode where it is not");
    visit_more();
    visit("healthy_z_range", healthy_z_range, "height of a healthy robot (m)");
    visit("healthy_angle_range", healthy_angle_range, "angle of a healthy robot's torso (rad)");
    visit("reset_noise_scale", reset_noise_scale, "scale of the noise on the initial state");
    visit("exclude_current_positions_from_observation", exclude_current_positions_from_observation,
          "leave the x-coordinate out of the observation");
    VisitView(visit);
  }
  void Open() {
    GymnasiumOptions::Open();
    NeedCoordinates(3, 0);
  }
  int num_hidden() const { return exclude_current_positions_from_observation ? 1 : 0; }
};

template <int version>
class PlanarWalker : public GymnasiumEnv {
 public:
  // Version 4 has the first two of the infos.
  enum Output {
    kObservation,
    kXPosition,
    kXVelocity,
    kZDistance,
    kRewardForward,
    kRewardCtrl,
    kRewardSurvive
  };

  static Specs MakeSpecs(const PlanarWalkerOptions& options) {
    Specs specs = {
        Observation("observation", Box<double>({options.nq() + options.nv() - options.num_hidden()}),
                    "positions, and velocities clipped to 10"),
        ScalarInfo("x_position", "position of the torso (m)"),
        ScalarInfo("x_velocity", "velocity over the step (m/s)")};
    if (version >= 5) {
      specs.push_back(ScalarInfo("z_distance_from_origin", "height above the initial one (m)"));
      specs.push_back(ScalarInfo("reward_forward", "part of the reward for moving forwards"));
      specs.push_back(ControlInfo("reward_ctrl", "part of the reward for small controls"));
      specs.push_back(ScalarInfo("reward_survive", "part of the reward for being healthy"));
    }
    specs.push_back(options.Control());
    return specs;
  }

  explicit PlanarWalker(const PlanarWalkerOptions& options) : GymnasiumEnv(options), options_(options) {}
  virtual ~PlanarWalker() = default;

  void Reset(Row& row) {
    ResetUniform(options_.reset_noise_scale);
    Observe(row);
    ClearInfos(row, kXPosition, version >= 5 ? kRewardSurvive : kXVelocity, kRewardCtrl);
    if constexpr (version >= 5) {
      PutInfo(row, kXPosition, data().qpos[0]);
      PutInfo(row, kZDistance, data().qpos[1] - model().qpos0[1]);
    }
  }

  Outcome Step(Row& row) {
    const double x_before = data().qpos[0];
    StepSimulation(row);
    const double x_velocity = (data().qpos[0] - x_before) / options_.dt();
    const bool healthy = IsHealthy();
    const double forward_reward = options_.forward_reward_weight * x_velocity;
    const bool rewarded = healthy || (version == 4 && options_.terminate_when_unhealthy);
    const double healthy_reward = rewarded * options_.healthy_reward;
    const float control_cost = ControlCost(options_.ctrl_cost_weight, row);
    Observe(row);
    PutInfo(row, kXPosition, data().qpos[0]);
    PutInfo(row, kXVelocity, x_velocity);
    if constexpr (version >= 5) {
      PutInfo(row, kZDistance, data().qpos[1] - model().qpos0[1]);
      PutInfo(row, kRewardForward, forward_reward);
      PutInfo(row, kRewardCtrl, -control_cost);
      PutInfo(row, kRewardSurvive, healthy_reward);
    }
    return {.reward = forward_reward + healthy_reward - control_cost,
            .terminated = !healthy && options_.terminate_when_unhealthy};
  }

 protected:
  virtual bool IsHealthy() const {
    const double z = data().qpos[1], angle = data().qpos[2];
    return options_.healthy_z_range[0] < z && z < options_.healthy_z_range[1] &&
           options_.healthy_angle_range[0] < angle && angle < options_.healthy_angle_range[1];
  }

 private:
  void Observe(Row& row) const {
    const int hidden = options_.num_hidden();
    Writer(row.Out<double>(kObservation))
        .Add(data().qpos + hidden, model().nq - hidden)
        .AddClipped(data().qvel, model().nv, -10, 10);
  }

  const PlanarWalkerOptions& options_;
};

}  // namespace torchrl_pool::mujoco

#endif  // TORCHRL_POOL_ENVS_MUJOCO_PLANAR_WALKER_H_
