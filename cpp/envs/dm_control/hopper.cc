// Hopper: stand on or hop with a planar one-legged robot. Reference: dm_control/suite/hopper.py.
#include "suite.h"

namespace torchrl_pool::dm_control {
namespace {

class Hopper {
 public:
  static constexpr double kControlTimestep = 0.02;

  Hopper(const mjModel& model, const std::string& task)
      : torso_(Find(model, mjOBJ_BODY, "torso")),
        foot_(Find(model, mjOBJ_BODY, "foot")),
        velocity_(SensorAddress(model, "torso_subtreelinvel")),
        touches_{SensorAddress(model, "touch_toe"), SensorAddress(model, "touch_heel")},
        hops_(task == "hop") {}

  void Initialize(Physics& physics, LegacyRng& random) const { RandomizeJoints(physics, random); }

  void Observe(const Physics& physics, Observer& observe) const {
    const mjModel& model = physics.model();
    observe("position", model.nq - 1).Add(physics.data().qpos + 1, model.nq - 1);
    observe("velocity", model.nv).Add(physics.data().qvel, model.nv);
    Writer touch = observe("touch", 2);
    for (const int sensor : touches_) touch.Add(std::log1p(*physics.sensor(sensor)));
  }

  double Reward(const Physics& physics) const {
    const double* heights = physics.data().xipos + 2;
    const double standing = Within(heights[3 * torso_] - heights[3 * foot_], {0.6, 2});
    if (hops_) return standing * Linear(*physics.sensor(velocity_), AtLeast(2), 1, 0.5);
    const int num_controls = static_cast<int>(physics.model().nu);
    return standing * ((MeanSmallControl(physics.data().ctrl, num_controls) + 4) / 5);
  }

 private:
  const int torso_, foot_, velocity_, touches_[2];
  const bool hops_;
};

const bool registered =
    RegisterTasks<Hopper>("hopper", {{"stand", "stand on one leg"}, {"hop", "hop forwards on one leg"}});

}  // namespace
}  // namespace torchrl_pool::dm_control
