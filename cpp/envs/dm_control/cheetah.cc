// Cheetah: run with a planar two-legged robot. Reference: dm_control/suite/cheetah.py.
#include "suite.h"

namespace torchrl_pool::dm_control {
namespace {

class Cheetah {
 public:
  Cheetah(const mjModel& model, const std::string&)
      : velocity_(SensorAddress(model, "torso_subtreelinvel")) {}

  void Initialize(Physics& physics, LegacyRng& random) const {
    const mjModel& model = physics.model();
    for (int joint = 0; joint < model.njnt; ++joint) {
      if (!model.jnt_limited[joint]) continue;
      physics.data().qpos[joint] = random.Uniform(model.jnt_range[2 * joint], model.jnt_range[2 * joint + 1]);
    }
    physics.Step(200);  // until it lies still
    physics.data().time = 0;
  }

  void Observe(const Physics& physics, Observer& observe) const {
    const mjModel& model = physics.model();
    observe("position", model.nq - 1).Add(physics.data().qpos + 1, model.nq - 1);
    observe("velocity", model.nv).Add(physics.data().qvel, model.nv);
  }

  double Reward(const Physics& physics) const {
    return Linear(physics.sensor(velocity_)[0], AtLeast(10), 10);
  }

 private:
  const int velocity_;
};

const bool registered = RegisterTasks<Cheetah>("cheetah", {{"run", "run with a planar two-legged robot"}});

}  // namespace
}  // namespace torchrl_pool::dm_control
