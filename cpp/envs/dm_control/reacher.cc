// Reacher: reach a random place with two links. Reference: dm_control/suite/reacher.py.
#include "suite.h"

namespace torchrl_pool::dm_control {
namespace {

class Reacher {
 public:
  Reacher(const mjModel& model, const std::string& task)
      : finger_(Find(model, mjOBJ_GEOM, "finger")),
        target_(Find(model, mjOBJ_GEOM, "target")),
        target_radius_(task == "easy" ? 0.05 : 0.015) {}

  void Prepare(Physics& physics) const {
    physics.Own(&mjModel::geom_pos, 3 * physics.model().ngeom, {{3 * target_, 2}});
    physics.Own(&mjModel::geom_size, 3 * physics.model().ngeom, {{3 * target_, 1}});
  }

  void Initialize(Physics& physics, LegacyRng& random) const {
    physics.own().geom_size[3 * target_] = target_radius_;
    RandomizeJoints(physics, random);
    const double angle = random.Uniform(0, 2 * kPi);
    const double radius = random.Uniform(0.05, 0.20);
    physics.own().geom_pos[3 * target_] = radius * std::sin(angle);
    physics.own().geom_pos[3 * target_ + 1] = radius * std::cos(angle);
  }

  void Observe(const Physics& physics, Observer& observe) const {
    observe("position", 2).Add(physics.data().qpos, 2);
    observe("to_target", 2).Add(ToTarget(physics).data(), 2);
    observe("velocity", 2).Add(physics.data().qvel, 2);
  }

  double Reward(const Physics& physics) const {
    const double* sizes = physics.model().geom_size;
    return Within(Norm(ToTarget(physics).data(), 2), {0, sizes[3 * target_] + sizes[3 * finger_]});
  }

 private:
  Vector ToTarget(const Physics& physics) const {
    return Between(physics.geom_position(finger_), physics.geom_position(target_));
  }

  const int finger_, target_;
  const double target_radius_;
};

const bool registered = RegisterTasks<Reacher>("reacher", {{"easy", "reach a large target with two links"},
                                                           {"hard", "reach a small target with two links"}});

}  // namespace
}  // namespace torchrl_pool::dm_control
