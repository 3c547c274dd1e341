// HalfCheetah: run with a planar two-legged robot. Reference: gymnasium/envs/mujoco/half_cheetah_v5.py,
// _v4.py.
#include "gymnasium_env.h"

namespace torchrl_pool::mujoco {
namespace {

template <int version>
class HalfCheetah : public GymnasiumEnv {
 public:
  struct Options : GymnasiumOptions {
    double forward_reward_weight = 1.0;
    double ctrl_cost_weight = 0.1;
    double reset_noise_scale = 0.1;
    bool exclude_current_positions_from_observation = true;

    Options() : GymnasiumOptions("half_cheetah.xml", 5, {{{"distance", {4.0}}}}) {}

    template <class Visitor>
    void Visit(Visitor& visit) {
      if constexpr (version >= 5) {
        VisitModel(visit);
        VisitCamera(visit);
      }
      visit("forward_reward_weight", forward_reward_weight, "weight of the forward reward");
      visit("ctrl_cost_weight", ctrl_cost_weight, "weight of the control cost");
      visit("reset_noise_scale", reset_noise_scale, "scale of the noise on the initial state");
      visit("exclude_current_positions_from_observation", exclude_current_positions_from_observation,
            "leave the x-coordinate out of the observation");
      VisitView(visit);
    }
    void Open() {
      GymnasiumOptions::Open();
      NeedCoordinates(1, 0);
    }
    int num_hidden() const { return exclude_current_positions_from_observation ? 1 : 0; }
  };

  enum Output { kObservation, kXPosition, kXVelocity, kRewardForward, kRewardCtrl };

  static Specs MakeSpecs(const Options& options) {
    return {Observation("observation", Box<double>({options.nq() + options.nv() - options.num_hidden()}),
                        "positions and velocities"),
            ScalarInfo("x_position", "position of the front tip (m)"),
            ScalarInfo("x_velocity", "velocity over the step (m/s)"),
            ScalarInfo(version >= 5 ? "reward_forward" : "reward_run", "part of the reward for running"),
            ControlInfo("reward_ctrl", "part of the reward for small controls"),
            options.Control()};
  }

  explicit HalfCheetah(const Options& options) : GymnasiumEnv(options), options_(options) {}

  void Reset(Row& row) {
    ResetUniformNormal(options_.reset_noise_scale);
    Observe(row);
    ClearInfos(row, kXPosition, kRewardCtrl, kRewardCtrl);
    if (version >= 5) PutInfo(row, kXPosition, data().qpos[0]);
  }

  Outcome Step(Row& row) {
    const double x_before = data().qpos[0];
    StepSimulation(row);
    const double x_velocity = (data().qpos[0] - x_before) / options_.dt();
    const double forward_reward = options_.forward_reward_weight * x_velocity;
    const float control_cost = ControlCost(options_.ctrl_cost_weight, row);
    Observe(row);
    PutInfo(row, kXPosition, data().qpos[0]);
    PutInfo(row, kXVelocity, x_velocity);
    PutInfo(row, kRewardForward, forward_reward);
    PutInfo(row, kRewardCtrl, -control_cost);
    return {.reward = forward_reward - control_cost};
  }

 private:
  void Observe(Row& row) const {
    WritePositionsAndVelocities(row.Out<double>(kObservation), options_.num_hidden());
  }

  const Options& options_;
};

const TaskInfo kHalfCheetah{.id = "HalfCheetah-v5",
                            .description = "run with a planar two-legged robot",
                            .max_episode_steps = 1000,
                            .reward_threshold = 4800};
const bool registered =
    Register<HalfCheetah<5>>(kHalfCheetah) && Register<HalfCheetah<4>>(Version4(kHalfCheetah));

}  // namespace
}  // namespace torchrl_pool::mujoco
