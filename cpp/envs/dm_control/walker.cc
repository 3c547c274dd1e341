// Walker: stand, walk and run with a planar two-legged robot. Reference: dm_control/suite/walker.py.
#include "suite.h"

namespace torchrl_pool::dm_control {
namespace {

class Walker {
 public:
  static constexpr double kControlTimestep = 0.025;

  Walker(const mjModel& model, const std::string& task)
      : torso_(Find(model, mjOBJ_BODY, "torso")),
        velocity_(SensorAddress(model, "torso_subtreelinvel")),
        speed_(task == "stand"  ? 0
               : task == "walk" ? 1
                                : 8) {}

  void Initialize(Physics& physics, LegacyRng& random) const { RandomizeJoints(physics, random); }

  void Observe(const Physics& physics, Observer& observe) const {
    const mjModel& model = physics.model();
    Writer orientations = observe("orientations", 2 * (model.nbody - 1));
    for (int body = 1; body < model.nbody; ++body) {
      const double* frame = physics.body_frame(body);
      orientations.Add(frame[0]).Add(frame[2]);
    }
    observe.Number("height", Height(physics));
    observe("velocity", model.nv).Add(physics.data().qvel, model.nv);
  }

  double Reward(const Physics& physics) const {
    const double standing = Gaussian(Height(physics), AtLeast(1.2), 1.2 / 2);
    const double upright = (1 + physics.body_frame(torso_)[8]) / 2;
    const double stand_reward = (3 * standing + upright) / 4;
    if (speed_ == 0) return stand_reward;
    const double move = Linear(*physics.sensor(velocity_), AtLeast(speed_), speed_ / 2, 0.5);
    return stand_reward * (5 * move + 1) / 6;
  }

 private:
  double Height(const Physics& physics) const { return physics.body_position(torso_)[2]; }

  const int torso_, velocity_;
  const double speed_;
};

const bool registered = RegisterTasks<Walker>("walker", {{"stand", "stand with a planar two-legged robot"},
                                                         {"walk", "walk with a planar two-legged robot"},
                                                         {"run", "run with a planar two-legged robot"}});

}  // namespace
}  // namespace torchrl_pool::dm_control
