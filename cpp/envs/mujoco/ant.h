// Ant: a robot of four legs, that walks forwards, or through a maze. Reference:
// gymnasium/envs/mujoco/ant_v5.py, _v4.py.
#ifndef TORCHRL_POOL_ENVS_MUJOCO_ANT_H_
#define TORCHRL_POOL_ENVS_MUJOCO_ANT_H_

#include <array>
#include <cmath>

#include "numpy_sum.h"
#include "planar_infos.h"

namespace torchrl_pool::mujoco {

template <int version>
class Ant : public GymnasiumEnv {
 public:
  struct Options : GymnasiumOptions {
    double forward_reward_weight = 1;
    double ctrl_cost_weight = 0.5;
    double contact_cost_weight = 5e-4;
    double healthy_reward = 1.0;
    IntOrString main_body = std::int64_t{1};
    bool terminate_when_unhealthy = true;
    std::array<double, 2> healthy_z_range{0.2, 1.0};
    std::array<double, 2> contact_force_range{-1.0, 1.0};
    double reset_noise_scale = 0.1;
    bool exclude_current_positions_from_observation = true;
    bool include_cfrc_ext_in_observation = version >= 5;  // version 4: use_contact_forces

    int body = 0;  // main_body's number

    Options() : GymnasiumOptions("ant.xml", 5, {{{"distance", {4.0}}}}) {}

    template <class Visitor>
    void Visit(Visitor& visit) {
      VisitRobot(visit);
      visit("reset_noise_scale", reset_noise_scale, "scale of the noise on the initial state");
      visit("exclude_current_positions_from_observation", exclude_current_positions_from_observation,
            "leave the x- and y-coordinates out of the observation");
      VisitForces(visit);
    }
    template <class Visitor>
    void VisitRobot(Visitor& visit) {
      if constexpr (version >= 5) {
        VisitModel(visit);
        VisitCamera(visit);
        visit("forward_reward_weight", forward_reward_weight, "weight of the forward reward");
      } else {
        visit("xml_file", xml_file, "the model");
      }
      visit("ctrl_cost_weight", ctrl_cost_weight, "weight of the control cost");
      if constexpr (version == 4) {
        visit("use_contact_forces", include_cfrc_ext_in_observation,
              "observe the forces on the bodies, and let them cost");
      }
      visit("contact_cost_weight", contact_cost_weight, "weight of the contact cost");
      visit("healthy_reward", healthy_reward, "reward for each step in which the robot is healthy");
      if constexpr (version >= 5) visit("main_body", main_body, "the body whose velocity is rewarded");
      visit("terminate_when_unhealthy", terminate_when_unhealthy, "end the episode where it is not");
      visit("healthy_z_range", healthy_z_range, "height of a healthy robot (m)");
      visit("contact_force_range", contact_force_range, "to what the forces on the bodies are clipped");
    }
    template <class Visitor>
    void VisitForces(Visitor& visit) {
      if constexpr (version >= 5) {
        visit("include_cfrc_ext_in_observation", include_cfrc_ext_in_observation,
              "observe the forces on the bodies");
      }
      VisitView(visit);
    }
    void Open() {
      GymnasiumOptions::Open();
      LookUp();
    }
    // What the task needs of the model.
    void LookUp() {
      NeedCoordinates(3, 0);
      body = Find(*model, mjOBJ_BODY, version >= 5 ? main_body : IntOrString("torso"));
    }
    int num_hidden() const { return exclude_current_positions_from_observation ? 2 : 0; }
    bool reports_contacts_as_control() const { return version == 4 && include_cfrc_ext_in_observation; }
    // Version 4 observes the forces on the world too.
    std::int64_t first_force() const { return version >= 5 ? 6 : 0; }
    std::int64_t num_forces() const {
      return include_cfrc_ext_in_observation ? nbody() * 6 - first_force() : 0;
    }
  };

  // The last is one thing in version 5 and another in version 4.
  enum Output {
    kRewardForward = kFirstOwnInfo,
    kRewardCtrl,
    kRewardSurvive,
    kRewardContact,
    kForwardReward = kRewardContact
  };

  static Specs MakeSpecs(const Options& options) {
    Specs specs = PlanarSpecs(
        Observation("observation",
                    Box<double>({options.nq() + options.nv() - options.num_hidden() + options.num_forces()}),
                    "positions, velocities, forces on the bodies"),
        " of the torso");
    specs.push_back(ScalarInfo("reward_forward", "part of the reward for moving forwards"));
    if (options.reports_contacts_as_control()) {
      specs.push_back(ScalarInfo("reward_ctrl", "part of the reward for small forces"));
    } else {
      specs.push_back(ControlInfo("reward_ctrl", "part of the reward for small controls"));
    }
    specs.push_back(ScalarInfo("reward_survive", "part of the reward for being healthy"));
    specs.push_back(version >= 5 ? ScalarInfo("reward_contact", "part of the reward for small forces")
                                 : ScalarInfo("forward_reward", "as reward_forward"));
    specs.push_back(options.Control());
    return specs;
  }

  explicit Ant(const Options& options) : GymnasiumEnv(options), options_(options) {}

  void Reset(Row& row) {
    ResetUniformNormal(options_.reset_noise_scale);
    Begin(row);
  }

  Outcome Step(Row& row) {
    const Xy before = xy_;
    StepSimulation(row);
    xy_ = MainBodyXy();
    const Xy velocity = Velocity(before, xy_, options_.dt());

    const bool healthy = IsHealthy();
    const double forward_reward = version >= 5 ? velocity[0] * options_.forward_reward_weight : velocity[0];
    const bool rewarded = healthy || (version == 4 && options_.terminate_when_unhealthy);
    const double healthy_reward = rewarded * options_.healthy_reward;
    const float control_cost = ControlCost(options_.ctrl_cost_weight, row);
    const bool contacts_cost = version >= 5 || options_.include_cfrc_ext_in_observation;
    const double contact_cost = contacts_cost ? ContactCost() : 0;
    const double costs = contacts_cost ? control_cost + contact_cost : control_cost;

    Observe(row);
    PutVelocity(row, velocity);
    PutInfo(row, kRewardForward, forward_reward);
    PutInfo(row, kRewardSurvive, healthy_reward);
    if constexpr (version >= 5) {
      PutPosition(row, {data().qpos[0], data().qpos[1]});
      PutInfo(row, kRewardCtrl, -control_cost);
      PutInfo(row, kRewardContact, -contact_cost);
    } else {
      PutPosition(row, xy_);
      if (options_.reports_contacts_as_control()) {
        PutInfo(row, kRewardCtrl, -contact_cost);
      } else {
        PutInfo(row, kRewardCtrl, -control_cost);
      }
      PutInfo(row, kForwardReward, forward_reward);
    }
    return {.reward = forward_reward + healthy_reward - costs,
            .terminated = !healthy && options_.terminate_when_unhealthy};
  }

  template <class Visitor>
  void VisitState(Visitor& visit) {
    GymnasiumEnv::VisitState(visit);
    visit(xy_);
  }

 protected:
  // The rest of a reset.
  void Begin(const Row& row) {
    xy_ = MainBodyXy();
    Observe(row);
    const bool is_control = !options_.reports_contacts_as_control();
    ClearInfos(row, kXPosition, kRewardContact, is_control ? kRewardCtrl : -1);
    if (version >= 5) PutPosition(row, {data().qpos[0], data().qpos[1]});
  }

 private:
  Xy MainBodyXy() const {
    const double* position = data().xpos + 3 * options_.body;
    return {position[0], position[1]};
  }
  double Clip(double force) const {
    return std::clamp(force, options_.contact_force_range[0], options_.contact_force_range[1]);
  }
  double ContactCost() const {
    const auto count = static_cast<std::size_t>(model().nbody) * 6;
    const auto square = [this](std::size_t i) {
      const double force = Clip(data().cfrc_ext[i]);
      return force * force;
    };
    return options_.contact_cost_weight * PairwiseSum<double>(0, count, square);
  }
  bool IsHealthy() const {
    const auto finite = [](const double* values, std::int64_t count) {
      return std::all_of(values, values + count, [](double value) { return std::isfinite(value); });
    };
    const double z = data().qpos[2];
    return finite(data().qpos, model().nq) && finite(data().qvel, model().nv) &&
           options_.healthy_z_range[0] <= z && z <= options_.healthy_z_range[1];
  }
  void Observe(const Row& row) const {
    WritePositionsAndVelocities(row.Out<double>(kObservation), options_.num_hidden())
        .AddClipped(data().cfrc_ext + options_.first_force(), options_.num_forces(),
                    options_.contact_force_range[0], options_.contact_force_range[1]);
  }

  const Options& options_;
  // Of the main body after the last step. Kept here, because MuJoCo derives it from the state before a step's
  // last substep: it cannot be had from the saved state.
  Xy xy_{};
};

}  // namespace torchrl_pool::mujoco

#endif  // TORCHRL_POOL_ENVS_MUJOCO_ANT_H_
