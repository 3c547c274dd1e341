// Humanoid: walk forwards on two legs. Reference: gymnasium/envs/mujoco/humanoid_v5.py, _v4.py.
#include <array>
#include <limits>

#include "humanoid_robot.h"
#include "numpy_sum.h"
#include "planar_infos.h"

namespace torchrl_pool::mujoco {
namespace {

template <int version>
class Humanoid : public HumanoidRobot {
 public:
  struct Options : HumanoidRobotOptions {
    double forward_reward_weight = 1.25;
    double contact_cost_weight = 5e-7;
    std::array<double, 2> contact_cost_range{-std::numeric_limits<double>::infinity(), 10.0};
    double healthy_reward = 5.0;
    bool terminate_when_unhealthy = true;
    std::array<double, 2> healthy_z_range{1.0, 2.0};

    Options() : HumanoidRobotOptions(version, "humanoid.xml", 2.0) {}

    template <class Visitor>
    void Visit(Visitor& visit) {
      if constexpr (version >= 5) {
        VisitModel(visit);
        VisitCamera(visit);
      }
      visit("forward_reward_weight", forward_reward_weight, "weight of the forward reward");
      visit("ctrl_cost_weight", ctrl_cost_weight, "weight of the control cost");
      if constexpr (version >= 5) {
        visit("contact_cost_weight", contact_cost_weight, "weight of the contact cost");
        visit("contact_cost_range", contact_cost_range, "to what the contact cost is clipped");
      }
      visit("healthy_reward", healthy_reward, "reward for each step in which the robot is healthy");
      visit("terminate_when_unhealthy", terminate_when_unhealthy, "end the episode where it is not");
      visit("healthy_z_range", healthy_z_range, "height of a healthy robot (m)");
      VisitNoiseAndExclude(visit);
      if constexpr (version >= 5) VisitIncludes(visit);
      VisitView(visit);
    }
  };

  // Version 4 has neither of the tendons and calls the parts of the reward by other names.
  enum Output {
    kRewardForward = kFirstOwnInfo,
    kRewardCtrl,
    kRewardSurvive,
    kRewardContact,
    kForwardReward = kRewardContact,
    kTendonLength,
    kTendonVelocity
  };

  static Specs MakeSpecs(const Options& options) {
    Specs specs = PlanarSpecs(options.ObservationSpec(), "", " of the centre of mass");
    specs.push_back(ScalarInfo(version >= 5 ? "reward_forward" : "reward_linvel",
                               "part of the reward for moving forwards"));
    specs.push_back(ScalarInfo(version >= 5 ? "reward_ctrl" : "reward_quadctrl",
                               "part of the reward for small controls"));
    specs.push_back(
        ScalarInfo(version >= 5 ? "reward_survive" : "reward_alive", "part of the reward for being healthy"));
    if (version >= 5) {
      specs.push_back(ScalarInfo("reward_contact", "part of the reward for small forces"));
      options.AddTendonSpecs(&specs);
    } else {
      specs.push_back(ScalarInfo("forward_reward", "as reward_linvel"));
    }
    specs.push_back(options.Control());
    return specs;
  }

  explicit Humanoid(const Options& options) : HumanoidRobot(options), options_(options) {}

  void Reset(Row& row) {
    ResetUniform(options_.reset_noise_scale);
    xy_ = MassCenterXy();
    Observe(row.Out<double>(kObservation));
    ClearInfos(row, kXPosition, kRewardContact);
    if (version >= 5) {
      PutPosition(row, {data().qpos[0], data().qpos[1]});
      PutTendons(row, kTendonLength);
    }
  }

  Outcome Step(Row& row) {
    const Xy before = xy_;
    StepSimulation(row);
    xy_ = MassCenterXy();
    const Xy velocity = Velocity(before, xy_, options_.dt());

    const bool healthy =
        options_.healthy_z_range[0] < data().qpos[2] && data().qpos[2] < options_.healthy_z_range[1];
    const double forward_reward = options_.forward_reward_weight * velocity[0];
    const bool rewarded = healthy || (version == 4 && options_.terminate_when_unhealthy);
    const double healthy_reward = rewarded * options_.healthy_reward;
    const double control_cost = options_.ctrl_cost_weight * SquaredControls();
    const double contact_cost =
        version >= 5 ? ForceCost(options_.contact_cost_weight, options_.contact_cost_range) : 0;

    Observe(row.Out<double>(kObservation));
    PutVelocity(row, velocity);
    PutInfo(row, kRewardForward, forward_reward);
    PutInfo(row, kRewardCtrl, -control_cost);
    PutInfo(row, kRewardSurvive, healthy_reward);
    if constexpr (version >= 5) {
      PutPosition(row, {data().qpos[0], data().qpos[1]});
      PutInfo(row, kRewardContact, -contact_cost);
      PutTendons(row, kTendonLength);
    } else {
      PutPosition(row, xy_);
      PutInfo(row, kForwardReward, forward_reward);
    }
    return {.reward = forward_reward + healthy_reward - (control_cost + contact_cost),
            .terminated = !healthy && options_.terminate_when_unhealthy};
  }

  template <class Visitor>
  void VisitState(Visitor& visit) {
    HumanoidRobot::VisitState(visit);
    visit(xy_);
  }

 private:
  // numpy.einsum adds up the bodies in their order, numpy.sum in pairs.
  Xy MassCenterXy() const {
    Xy moment{};
    const auto count = static_cast<std::size_t>(model().nbody);
    for (std::size_t body = 0; body < count; ++body) {
      moment[0] += model().body_mass[body] * data().xipos[3 * body];
      moment[1] += model().body_mass[body] * data().xipos[3 * body + 1];
    }
    const double mass = Sum(model().body_mass, count);
    return {moment[0] / mass, moment[1] / mass};
  }

  const Options& options_;
  // Of the centre of mass after the last step. Kept here, because MuJoCo derives it from the state before a
  // step's last substep: it cannot be had from the saved state.
  Xy xy_{};
};

const TaskInfo kHumanoid{
    .id = "Humanoid-v5", .description = "walk forwards on two legs", .max_episode_steps = 1000};
const bool registered = Register<Humanoid<5>>(kHumanoid) && Register<Humanoid<4>>(Version4(kHumanoid));

}  // namespace
}  // namespace torchrl_pool::mujoco
