// What MuJoCo computes only where somebody wants it.
#ifndef TORCHRL_POOL_ENVS_MUJOCO_WANTED_H_
#define TORCHRL_POOL_ENVS_MUJOCO_WANTED_H_

#include <mujoco/mujoco.h>

#include <string_view>

namespace torchrl_pool::mujoco {

struct Wanted {
  bool momenta = false, forces = false;

  // An array of mjData.
  void Add(std::string_view array) {
    momenta |= array == "subtree_linvel" || array == "subtree_angmom";
    forces |= array == "cacc" || array == "cfrc_int" || array == "cfrc_ext";
  }
  // From positions and velocities.
  void ComputeMomenta(const mjModel& model, mjData* data) const {
    if (momenta) mj_subtreeVel(&model, data);
  }
  // From the accelerations of a simulation step, after it.
  void ComputeForces(const mjModel& model, mjData* data) const {
    if (forces) mj_rnePostConstraint(&model, data);
  }
};

}  // namespace torchrl_pool::mujoco

#endif  // TORCHRL_POOL_ENVS_MUJOCO_WANTED_H_
