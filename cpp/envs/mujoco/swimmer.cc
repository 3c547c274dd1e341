// Swimmer: swim forwards in a plane with two joints. Reference: gymnasium/envs/mujoco/swimmer_v5.py, _v4.py.
#include "planar_infos.h"

namespace torchrl_pool::mujoco {
namespace {

template <int version>
class Swimmer : public GymnasiumEnv {
 public:
  struct Options : GymnasiumOptions {
    double forward_reward_weight = 1.0;
    double ctrl_cost_weight = 1e-4;
    double reset_noise_scale = 0.1;
    bool exclude_current_positions_from_observation = true;

    Options() : GymnasiumOptions("swimmer.xml", 4, std::nullopt) {}

    template <class Visitor>
    void Visit(Visitor& visit) {
      if constexpr (version >= 5) VisitModel(visit);
      VisitCamera(visit);
      visit("forward_reward_weight", forward_reward_weight, "weight of the forward reward");
      visit("ctrl_cost_weight", ctrl_cost_weight, "weight of the control cost");
      visit("reset_noise_scale", reset_noise_scale, "scale of the noise on the initial state");
      visit("exclude_current_positions_from_observation", exclude_current_positions_from_observation,
            "leave the x- and y-coordinates out of the observation");
      VisitView(visit);
    }
    void Open() {
      GymnasiumOptions::Open();
      NeedCoordinates(2, 0);
    }
    int num_hidden() const { return exclude_current_positions_from_observation ? 2 : 0; }
  };

  // Version 4 has one more, which equals kRewardForward.
  enum Output { kRewardForward = kFirstOwnInfo, kRewardCtrl, kForwardReward };

  static Specs MakeSpecs(const Options& options) {
    Specs specs = PlanarSpecs(
        Observation("observation", Box<double>({options.nq() + options.nv() - options.num_hidden()}),
                    "positions and velocities"),
        " of the tip");
    specs.push_back(
        ScalarInfo(version >= 5 ? "reward_forward" : "reward_fwd", "part of the reward for swimming"));
    specs.push_back(ControlInfo("reward_ctrl", "part of the reward for small controls"));
    if (version == 4) specs.push_back(ScalarInfo("forward_reward", "as reward_fwd"));
    specs.push_back(options.Control());
    return specs;
  }

  explicit Swimmer(const Options& options) : GymnasiumEnv(options), options_(options) {}

  void Reset(Row& row) {
    ResetUniform(options_.reset_noise_scale);
    Observe(row);
    ClearInfos(row, kXPosition, version >= 5 ? kRewardCtrl : kForwardReward, kRewardCtrl);
    if (version >= 5) PutPosition(row, TipXy());
  }

  Outcome Step(Row& row) {
    const Xy before = TipXy();
    StepSimulation(row);
    const Xy velocity = Velocity(before, TipXy(), options_.dt());
    const double forward_reward = options_.forward_reward_weight * velocity[0];
    const float control_cost = ControlCost(options_.ctrl_cost_weight, row);
    Observe(row);
    PutPosition(row, TipXy());
    PutVelocity(row, velocity);
    PutInfo(row, kRewardForward, forward_reward);
    PutInfo(row, kRewardCtrl, -control_cost);
    if constexpr (version == 4) PutInfo(row, kForwardReward, forward_reward);
    return {.reward = forward_reward - control_cost};
  }

 private:
  Xy TipXy() const { return {data().qpos[0], data().qpos[1]}; }
  void Observe(Row& row) const {
    WritePositionsAndVelocities(row.Out<double>(kObservation), options_.num_hidden());
  }

  const Options& options_;
};

const TaskInfo kSwimmer{.id = "Swimmer-v5",
                        .description = "swim forwards in a plane with two joints",
                        .max_episode_steps = 1000,
                        .reward_threshold = 360};
const bool registered = Register<Swimmer<5>>(kSwimmer) && Register<Swimmer<4>>(Version4(kSwimmer));

}  // namespace
}  // namespace torchrl_pool::mujoco
