// Acrobot: swing up a double pendulum. Reference: dm_control/suite/acrobot.py.
#include "suite.h"

namespace torchrl_pool::dm_control {
namespace {

class Acrobot {
 public:
  Acrobot(const mjModel& model, const std::string& task)
      : arms_{Find(model, mjOBJ_BODY, "upper_arm"), Find(model, mjOBJ_BODY, "lower_arm")},
        target_(Find(model, mjOBJ_SITE, "target")),
        tip_(Find(model, mjOBJ_SITE, "tip")),
        radius_(model.site_size[3 * target_]),
        is_sparse_(task == "swingup_sparse") {}

  void Initialize(Physics& physics, LegacyRng& random) const {
    for (int joint = 0; joint < 2; ++joint) physics.data().qpos[joint] = random.Uniform(-kPi, kPi);
  }

  void Observe(const Physics& physics, Observer& observe) const {
    Writer orientations = observe("orientations", 4);
    for (const int xz : {2, 8}) {
      for (const int arm : arms_) orientations.Add(physics.body_frame(arm)[xz]);
    }
    observe("velocity", 2).Add(physics.data().qvel, 2);
  }

  double Reward(const Physics& physics) const {
    const double distance = Norm(Between(physics.site_position(tip_), physics.site_position(target_)));
    return is_sparse_ ? Within(distance, {0, radius_}) : Gaussian(distance, {0, radius_}, 1);
  }

 private:
  const int arms_[2], target_, tip_;
  const double radius_;
  const bool is_sparse_;
};

const bool registered = RegisterTasks<Acrobot>(
    "acrobot", {{"swingup", "swing up a double pendulum"}, {"swingup_sparse", "rewarded at the top only"}});

}  // namespace
}  // namespace torchrl_pool::dm_control
