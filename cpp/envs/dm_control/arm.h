// The planar arm of manipulator and stacker. Reference: dm_control/suite/manipulator.py, stacker.py.
#ifndef TORCHRL_POOL_ENVS_DM_CONTROL_ARM_H_
#define TORCHRL_POOL_ENVS_DM_CONTROL_ARM_H_

#include "suite.h"

namespace torchrl_pool::dm_control {

class Arm {
 public:
  explicit Arm(const mjModel& model);

  void Randomize(Physics& physics, LegacyRng& random) const;
  // arm_pos and arm_vel.
  void Observe(const Physics& physics, Observer& observe) const;

 private:
  static constexpr int kJoints = 8;
  int joints_[kJoints];
  int finger_, thumb_;  // where they are in qpos
};

// Place and orientation of a body in the x-z plane.
struct Pose {
  double x, z, w, y;
};
void AddPose(const Physics& physics, int body, Writer& writer);
void SetPose(mjModel& model, int body, const Pose& pose);

inline double SiteDistance(const Physics& physics, int site1, int site2) {
  return Norm(Between(physics.site_position(site2), physics.site_position(site1)));
}

}  // namespace torchrl_pool::dm_control

#endif  // TORCHRL_POOL_ENVS_DM_CONTROL_ARM_H_
