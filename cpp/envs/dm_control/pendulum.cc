// Pendulum: swing it up. Reference: dm_control/suite/pendulum.py.
#include "suite.h"

namespace torchrl_pool::dm_control {
namespace {

class Pendulum {
 public:
  Pendulum(const mjModel& model, const std::string&) : pole_(Find(model, mjOBJ_BODY, "pole")) {}

  void Initialize(Physics& physics, LegacyRng& random) const {
    physics.data().qpos[0] = random.Uniform(-kPi, kPi);
  }

  void Observe(const Physics& physics, Observer& observe) const {
    const double* frame = physics.body_frame(pole_);
    observe("orientation", 2).Add(frame[8]).Add(frame[2]);
    observe("velocity", 1).Add(physics.data().qvel, 1);
  }

  double Reward(const Physics& physics) const {
    static const double least_cosine = std::cos(8 * (kPi / 180));
    return Within(physics.body_frame(pole_)[8], {least_cosine, 1});
  }

 private:
  const int pole_;
};

const bool registered = RegisterTasks<Pendulum>("pendulum", {{"swingup", "swing up a pendulum"}});

}  // namespace
}  // namespace torchrl_pool::dm_control
