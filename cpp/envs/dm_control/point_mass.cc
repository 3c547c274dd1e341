// Point mass: move it to the middle. Reference: dm_control/suite/point_mass.py.
#include "suite.h"

namespace torchrl_pool::dm_control {
namespace {

class PointMass {
 public:
  PointMass(const mjModel& model, const std::string& task)
      : mass_(Find(model, mjOBJ_GEOM, "pointmass")),
        target_(Find(model, mjOBJ_GEOM, "target")),
        radius_(model.geom_size[3 * target_]),
        randomizes_gains_(task == "hard") {}

  void Prepare(Physics& physics) const {
    if (randomizes_gains_) physics.Own(&mjModel::wrap_prm, physics.model().nwrap, {{0, 4}});
  }

  void Initialize(Physics& physics, LegacyRng& random) const {
    RandomizeJoints(physics, random);
    if (!randomizes_gains_) return;
    // Each control moves the mass in a direction of its own, and the two are not too parallel.
    double* directions = physics.own().wrap_prm;
    RandomDirection(random, 2, directions);
    do {
      RandomDirection(random, 2, directions + 2);
    } while (std::abs(Dot(directions, directions + 2, 2)) > 0.9);
  }

  void Observe(const Physics& physics, Observer& observe) const {
    observe("position", 2).Add(physics.data().qpos, 2);
    observe("velocity", 2).Add(physics.data().qvel, 2);
  }

  double Reward(const Physics& physics) const {
    const double distance = Norm(Between(physics.geom_position(mass_), physics.geom_position(target_)));
    const double near_target = Gaussian(distance, {0, radius_}, radius_);
    return near_target * ((MeanSmallControl(physics.data().ctrl, 2) + 4) / 5);
  }

 private:
  const int mass_, target_;
  const double radius_;
  const bool randomizes_gains_;
};

const bool registered = RegisterTasks<PointMass>(
    "point_mass", {{"easy", "move a mass to the middle"},
                   {"hard", "move a mass to the middle with controls whose directions change"}});

}  // namespace
}  // namespace torchrl_pool::dm_control
