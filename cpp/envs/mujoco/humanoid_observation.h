// What Humanoid and HumanoidStandup observe.
#ifndef TORCHRL_POOL_ENVS_MUJOCO_HUMANOID_OBSERVATION_H_
#define TORCHRL_POOL_ENVS_MUJOCO_HUMANOID_OBSERVATION_H_

#include "gymnasium_env.h"

namespace torchrl_pool::mujoco {

struct HumanoidObservation {
  bool exclude_current_positions_from_observation = true;
  bool include_cinert_in_observation = true;
  bool include_cvel_in_observation = true;
  bool include_qfrc_actuator_in_observation = true;
  bool include_cfrc_ext_in_observation = true;

  template <class Visitor>
  void VisitExclude(Visitor& visit) {
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

  // whole: also what belongs to the world and to the free joint, as version 4 does.
  Spec MakeSpec(const GymnasiumOptions& options, bool whole) const {
    const std::int64_t bodies = options.nbody() - !whole;
    std::int64_t size = options.nq() + options.nv() - num_hidden();
    if (include_cinert_in_observation) size += bodies * 10;
    if (include_cvel_in_observation) size += bodies * 6;
    if (include_qfrc_actuator_in_observation) size += options.nv() - (whole ? 0 : 6);
    if (include_cfrc_ext_in_observation) size += bodies * 6;
    return Observation("observation", Box<double>({size}),
                       "positions, velocities; of each body: mass and inertia, velocity; forces of the "
                       "actuators, and from outside on each body");
  }

  void Write(const mjModel& model, const mjData& data, bool whole, double* out) const {
    const int skipped = whole ? 0 : 1;
    const std::int64_t bodies = model.nbody - skipped;
    Writer writer(out);
    writer.Add(data.qpos + num_hidden(), model.nq - num_hidden()).Add(data.qvel, model.nv);
    if (include_cinert_in_observation) writer.Add(data.cinert + skipped * 10, bodies * 10);
    if (include_cvel_in_observation) writer.Add(data.cvel + skipped * 6, bodies * 6);
    if (include_qfrc_actuator_in_observation) {
      writer.Add(data.qfrc_actuator + skipped * 6, model.nv - skipped * 6);
    }
    if (include_cfrc_ext_in_observation) writer.Add(data.cfrc_ext + skipped * 6, bodies * 6);
  }

 private:
  int num_hidden() const { return exclude_current_positions_from_observation ? 2 : 0; }
};

}  // namespace torchrl_pool::mujoco

#endif  // TORCHRL_POOL_ENVS_MUJOCO_HUMANOID_OBSERVATION_H_
