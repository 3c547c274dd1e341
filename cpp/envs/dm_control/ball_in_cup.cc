// Ball in cup: catch a ball on a string. Reference: dm_control/suite/ball_in_cup.py.
#include "suite.h"

namespace torchrl_pool::dm_control {
namespace {

class BallInCup {
 public:
  static constexpr double kControlTimestep = 0.02;

  BallInCup(const mjModel& model, const std::string&)
      : x_(PositionAddress(model, "ball_x")),
        z_(PositionAddress(model, "ball_z")),
        ball_(Find(model, mjOBJ_BODY, "ball")),
        target_(Find(model, mjOBJ_SITE, "target")) {
    const double ball_radius = model.geom_size[3 * Find(model, mjOBJ_GEOM, "ball")];
    for (const int axis : {0, 2}) room_[axis] = model.site_size[3 * target_ + axis] - ball_radius;
  }

  void Initialize(Physics& physics, LegacyRng& random) const {
    physics.UntilNothingTouches([&] {
      physics.data().qpos[x_] = random.Uniform(-0.2, 0.2);
      physics.data().qpos[z_] = random.Uniform(0.2, 0.5);
    });
  }

  void Observe(const Physics& physics, Observer& observe) const {
    observe("position", 4).Add(physics.data().qpos, 4);
    observe("velocity", 4).Add(physics.data().qvel, 4);
  }

  double Reward(const Physics& physics) const {
    const Vector way = Between(physics.body_position(ball_), physics.site_position(target_));
    return std::abs(way[0]) < room_[0] && std::abs(way[2]) < room_[2] ? 1 : 0;
  }

 private:
  const int x_, z_, ball_, target_;
  double room_[3] = {};
};

const bool registered = RegisterTasks<BallInCup>("ball_in_cup", {{"catch", "catch a ball on a string"}});

}  // namespace
}  // namespace torchrl_pool::dm_control
