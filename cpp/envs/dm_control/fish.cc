// Fish: swim upright, or to a target. Reference: dm_control/suite/fish.py.
#include "suite.h"

namespace torchrl_pool::dm_control {
namespace {

class Fish {
 public:
  static constexpr double kControlTimestep = 0.04;

  Fish(const mjModel& model, const std::string& task)
      : root_(PositionAddress(model, "root")),
        torso_(Find(model, mjOBJ_BODY, "torso")),
        mouth_(Find(model, mjOBJ_GEOM, "mouth")),
        target_(Find(model, mjOBJ_GEOM, "target")),
        radii_(model.geom_size[3 * mouth_] + model.geom_size[3 * target_]),
        swims_(task == "swim") {
    const char* const joints[] = {"tail1",          "tail_twist",   "tail2",        "finright_roll",
                                  "finright_pitch", "finleft_roll", "finleft_pitch"};
    for (const char* joint : joints) joints_.push_back(PositionAddress(model, joint));
  }

  void Prepare(Physics& physics) const {
    if (swims_) return physics.Own(&mjModel::geom_pos, 3 * physics.model().ngeom, {{3 * target_, 3}});
    physics.Own(&mjModel::geom_rgba, 4 * physics.model().ngeom, {});
    physics.own().geom_rgba[4 * target_ + 3] = 0;
  }

  void Initialize(Physics& physics, LegacyRng& random) const {
    double* qpos = physics.data().qpos;
    RandomDirection(random, 4, qpos + root_ + 3);
    for (const int joint : joints_) qpos[joint] = random.Uniform(-0.2, 0.2);
    if (!swims_) return;
    double* target = physics.own().geom_pos + 3 * target_;
    target[0] = random.Uniform(-0.4, 0.4);
    target[1] = random.Uniform(-0.4, 0.4);
    target[2] = random.Uniform(0.1, 0.3);
  }

  void Observe(const Physics& physics, Observer& observe) const {
    Writer angles = observe("joint_angles", static_cast<std::int64_t>(joints_.size()));
    for (const int joint : joints_) angles.Add(physics.data().qpos[joint]);
    observe.Number("upright", Upright(physics));
    if (swims_) observe("target", 3).Add(MouthToTarget(physics));
    observe("velocity", physics.model().nv).Add(physics.data().qvel, physics.model().nv);
  }

  double Reward(const Physics& physics) const {
    if (!swims_) return Gaussian(Upright(physics), {1, 1}, 1);
    const double in_target = Gaussian(Norm(MouthToTarget(physics)), {0, radii_}, 2 * radii_);
    return (7 * in_target + 0.5 * (Upright(physics) + 1)) / 8;
  }

 private:
  double Upright(const Physics& physics) const { return physics.body_frame(torso_)[8]; }
  Vector MouthToTarget(const Physics& physics) const {
    return Turned(Between(physics.geom_position(mouth_), physics.geom_position(target_)),
                  physics.data().geom_xmat + 9 * mouth_);
  }

  const int root_, torso_, mouth_, target_;
  const double radii_;
  const bool swims_;
  std::vector<int> joints_;
};

const bool registered = RegisterTasks<Fish>(
    "fish", {{"upright", "keep a fish upright"}, {"swim", "swim to a target with a fish"}});

}  // namespace
}  // namespace torchrl_pool::dm_control
