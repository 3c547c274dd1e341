#include "arm.h"

namespace torchrl_pool::dm_control {

Arm::Arm(const mjModel& model)
    : finger_(PositionAddress(model, "finger")), thumb_(PositionAddress(model, "thumb")) {
  const char* const names[kJoints] = {"arm_root", "arm_shoulder", "arm_elbow", "arm_wrist",
                                      "finger",   "fingertip",    "thumb",     "thumbtip"};
  std::transform(names, names + kJoints, joints_,
                 [&](const char* name) { return Find(model, mjOBJ_JOINT, name); });
}

void Arm::Randomize(Physics& physics, LegacyRng& random) const {
  const mjModel& model = physics.model();
  double* qpos = physics.data().qpos;
  for (const int joint : joints_) {
    const double* range = model.jnt_range + 2 * joint;
    const bool is_limited = model.jnt_limited[joint];
    qpos[model.jnt_qposadr[joint]] =
        random.Uniform(is_limited ? range[0] : -kPi, is_limited ? range[1] : kPi);
  }
  qpos[finger_] = qpos[thumb_];
}

void Arm::Observe(const Physics& physics, Observer& observe) const {
  const mjModel& model = physics.model();
  Writer positions = observe("arm_pos", 2, kJoints);
  for (const int joint : joints_) {
    const double angle = physics.data().qpos[model.jnt_qposadr[joint]];
    positions.Add(std::sin(angle)).Add(std::cos(angle));
  }
  Writer velocities = observe("arm_vel", kJoints);
  for (const int joint : joints_) velocities.Add(physics.data().qvel[model.jnt_dofadr[joint]]);
}

void AddPose(const Physics& physics, int body, Writer& writer) {
  const double *place = physics.body_position(body), *rotation = physics.data().xquat + 4 * body;
  writer.Add(place[0]).Add(place[2]).Add(rotation[0]).Add(rotation[2]);
}

void SetPose(mjModel& model, int body, const Pose& pose) {
  model.body_pos[3 * body] = pose.x;
  model.body_pos[3 * body + 2] = pose.z;
  model.body_quat[4 * body] = pose.w;
  model.body_quat[4 * body + 2] = pose.y;
}

}  // namespace torchrl_pool::dm_control
