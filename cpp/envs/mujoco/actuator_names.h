// What a model calls its actuators.
#ifndef TORCHRL_POOL_ENVS_MUJOCO_ACTUATOR_NAMES_H_
#define TORCHRL_POOL_ENVS_MUJOCO_ACTUATOR_NAMES_H_

#include <mujoco/mujoco.h>

#include <string>

namespace torchrl_pool::mujoco {

// "control of hip, control of knee": by the actuators' own names, else by those of their joints.
inline std::string ControlNames(const mjModel& model) {
  std::string names;
  for (int i = 0; i < static_cast<int>(model.nu); ++i) {
    const char* name = mj_id2name(&model, mjOBJ_ACTUATOR, i);
    const bool moves_joint = model.actuator_trntype[i] == mjTRN_JOINT;
    if (!name && moves_joint) name = mj_id2name(&model, mjOBJ_JOINT, model.actuator_trnid[2 * i]);
    names += i == 0 ? "control of " : ", control of ";
    names += name ? std::string(name) : "actuator " + std::to_string(i);
  }
  return names;
}

}  // namespace torchrl_pool::mujoco

#endif  // TORCHRL_POOL_ENVS_MUJOCO_ACTUATOR_NAMES_H_
