// What Ant, Humanoid and Swimmer report of their way over the ground: the first of their infos.
#ifndef TORCHRL_POOL_ENVS_MUJOCO_PLANAR_INFOS_H_
#define TORCHRL_POOL_ENVS_MUJOCO_PLANAR_INFOS_H_

#include <array>
#include <string>

#include "gymnasium_env.h"
#include "numpy_blas.h"

namespace torchrl_pool::mujoco {

using Xy = std::array<double, 2>;

// A task's own infos follow from kFirstOwnInfo on.
enum PlanarOutput { kObservation, kXPosition, kYPosition, kDistance, kXVelocity, kYVelocity, kFirstOwnInfo };

// The specs of a task's outputs so far. The last two say what is observed: " of the torso", say.
inline Specs PlanarSpecs(Spec observation, const std::string& whose_position,
                         const std::string& whose_velocity = "") {
  const std::string position = "position" + whose_position + " (m)";
  const std::string velocity = "velocity" + whose_velocity + " over the step (m/s)";
  return {std::move(observation),
          ScalarInfo("x_position", position),
          ScalarInfo("y_position", position),
          ScalarInfo("distance_from_origin", "distance" + whose_position + " from the origin (m)"),
          ScalarInfo("x_velocity", velocity),
          ScalarInfo("y_velocity", velocity)};
}

inline void PutPosition(const Row& row, Xy xy) {
  PutInfo(row, kXPosition, xy[0]);
  PutInfo(row, kYPosition, xy[1]);
  PutInfo(row, kDistance, Norm(xy));
}
inline void PutVelocity(const Row& row, Xy velocity) {
  PutInfo(row, kXVelocity, velocity[0]);
  PutInfo(row, kYVelocity, velocity[1]);
}
inline Xy Velocity(Xy before, Xy after, double dt) {
  return {(after[0] - before[0]) / dt, (after[1] - before[1]) / dt};
}

}  // namespace torchrl_pool::mujoco

#endif  // TORCHRL_POOL_ENVS_MUJOCO_PLANAR_INFOS_H_
