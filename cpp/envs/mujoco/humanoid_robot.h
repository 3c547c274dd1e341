// What Humanoid and HumanoidStandup have in common: the robot, and what is observed of it.
#ifndef TORCHRL_POOL_ENVS_MUJOCO_HUMANOID_ROBOT_H_
#define TORCHRL_POOL_ENVS_MUJOCO_HUMANOID_ROBOT_H_

#include <algorithm>
#include <array>

#include "gymnasium_env.h"

namespace torchrl_pool::mujoco {

struct HumanoidRobotOptions : GymnasiumOptions {
  // Bodies that are not observed: version 5 leaves out the world, and the six forces of the free joint too.
  int num_skipped;

  double ctrl_cost_weight = 0.1;
  double reset_noise_scale = 1e-2;
  bool exclude_current_positions_from_observation = true;
  bool include_cinert_in_observation = true;
  bool include_cvel_in_observation = true;
  bool include_qfrc_actuator_in_observation = true;
  bool include_cfrc_ext_in_observation = true;

  HumanoidRobotOptions(int version, const char* xml, double camera_height)
      : GymnasiumOptions(xml, 5,
                         {{{"trackbodyid", {1}},
                           {"distance", {4.0}},
                           {"lookat", {0.0, 0.0, camera_height}},
                           {"elevation", {-20.0}}}}),
        num_skipped(version >= 5 ? 1 : 0) {}

  template <class Visitor>
  void VisitNoiseAndExclude(Visitor& visit) {
    visit("reset_noise_scale", reset_noise_scale, "scale of the noise on the initial state");
    visit("exclude_current_positions_from_observation", exclude_current_positions_from_observation,
          "leave the x- and y-coordinates out of the observation");
  }
  template <class Visitor>
  void VisitIncludes(Visitor& visit) {
    visit("include_cinert_in_observation", include_cinert_in_observation, "observe masses and inertias");
    visit("include_cvel_in_observation", include_cvel_in_observation, "observe the bodies' velocities");
    visit("include_qfrc_actuator_in_observation", include_qfrc_actuator_in_observation,
          "observe the actuators' forces");
    visit("include_cfrc_ext_in_observation", include_cfrc_ext_in_observation,
          "observe the forces on the bodies");
  }
  void Open() {
    GymnasiumOptions::Open();
    NeedCoordinates(3, 6);
  }

  int num_hidden() const { return exclude_current_positions_from_observation ? 2 : 0; }
  Spec ObservationSpec() const {
    const std::int64_t num_bodies = nbody() - num_skipped;
    std::int64_t size = nq() + nv() - num_hidden();
    if (include_cinert_in_observation) size += num_bodies * 10;
    if (include_cvel_in_observation) size += num_bodies * 6;
    if (include_qfrc_actuator_in_observation) size += nv() - num_skipped * 6;
    if (include_cfrc_ext_in_observation) size += num_bodies * 6;
    return Observation("observation", Box<double>({size}),
                       "positions, velocities; of each body: mass and inertia, velocity; forces of the "
                       "actuators, and from outside on each body");
  }
  void AddTendonSpecs(Specs* specs) const {
    const Space numbers = Box<double>({static_cast<std::int64_t>(model->ntendon)});
    specs->push_back(Info("tendon_length", numbers, "lengths of the tendons"));
    specs->push_back(Info("tendon_velocity", numbers, "velocities of the tendons"));
  }
};

class HumanoidRobot : public GymnasiumEnv {
 public:
  explicit HumanoidRobot(const HumanoidRobotOptions& options) : GymnasiumEnv(options), options_(options) {}

 protected:
  void Observe(double* out) const {
    const int skipped = options_.num_skipped;
    const std::int64_t num_bodies = model().nbody - skipped;
    Writer writer = WritePositionsAndVelocities(out, options_.num_hidden());
    if (options_.include_cinert_in_observation) writer.Add(data().cinert + skipped * 10, num_bodies * 10);
    if (options_.include_cvel_in_observation) writer.Add(data().cvel + skipped * 6, num_bodies * 6);
    if (options_.include_qfrc_actuator_in_observation) {
      writer.Add(data().qfrc_actuator + skipped * 6, model().nv - skipped * 6);
    }
    if (options_.include_cfrc_ext_in_observation) writer.Add(data().cfrc_ext + skipped * 6, num_bodies * 6);
  }
  // first: the output with the lengths. The velocities follow.
  void PutTendons(Row& row, int first) const {
    PutInfo(row, first, data().ten_length, model().ntendon);
    PutInfo(row, first + 1, data().ten_velocity, model().ntendon);
  }

  double ForceCost(double weight, std::array<double, 2> range) const {
    return std::clamp(weight * SquaredContactForces(), range[0], range[1]);
  }

 private:
  const HumanoidRobotOptions& options_;
};

}  // namespace torchrl_pool::mujoco

#endif  // TORCHRL_POOL_ENVS_MUJOCO_HUMANOID_ROBOT_H_
