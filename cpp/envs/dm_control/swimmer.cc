// Swimmer: swim to a target with a chain of links. Reference: dm_control/suite/swimmer.py.
#include "suite.h"

namespace torchrl_pool::dm_control {
namespace {

class Swimmer {
 public:
  static constexpr double kControlTimestep = 0.03;

  Swimmer(const mjModel& model, const std::string&)
      : head_(Find(model, mjOBJ_BODY, "head")),
        nose_(Find(model, mjOBJ_GEOM, "nose")),
        target_(Find(model, mjOBJ_GEOM, "target")),
        target_light_(Find(model, mjOBJ_LIGHT, "target_light")),
        radius_(model.geom_size[3 * target_]) {}

  void Prepare(Physics& physics) const {
    physics.Own(&mjModel::geom_pos, 3 * physics.model().ngeom, {{3 * target_, 2}});
    physics.Own(&mjModel::light_pos, 3 * physics.model().nlight, {{3 * target_light_, 2}});
  }

  void Initialize(Physics& physics, LegacyRng& random) const {
    RandomizeJoints(physics, random);
    const double farthest = random.Random() < 0.2 ? 0.3 : 2;
    for (int axis = 0; axis < 2; ++axis) {
      const double place = random.Uniform(-farthest, farthest);
      physics.own().geom_pos[3 * target_ + axis] = place;
      physics.own().light_pos[3 * target_light_ + axis] = place;
    }
  }

  void Observe(const Physics& physics, Observer& observe) const {
    const mjModel& model = physics.model();
    observe("joints", model.nq - 3).Add(physics.data().qpos + 3, model.nq - 3);
    observe("to_target", 2).Add(NoseToTarget(physics).data(), 2);
    const std::int64_t num_links = (model.nsensordata - kFirst) / kPerLink;
    Writer velocities = observe("body_velocities", 3 * num_links);
    for (int i = 0; i < num_links; ++i) {
      const double* link = physics.sensor(kFirst + i * kPerLink);
      velocities.Add(link[0]).Add(link[1]).Add(link[5]);
    }
  }

  double Reward(const Physics& physics) const {
    return LongTail(Norm(NoseToTarget(physics).data(), 2), {0, radius_}, 5 * radius_);
  }

 private:
  // Sensors before those of the links, and numbers of each link: its velocity and its rotation.
  static constexpr int kFirst = 12, kPerLink = 6;

  Vector NoseToTarget(const Physics& physics) const {
    return Turned(Between(physics.geom_position(nose_), physics.geom_position(target_)),
                  physics.body_frame(head_));
  }

  const int head_, nose_, target_, target_light_;
  const double radius_;
};

const bool registered = RegisterTasks<Swimmer>("swimmer", {{"swimmer6", "swim to a target with 6 links"},
                                                           {"swimmer15", "swim to a target with 15 links"}});

}  // namespace
}  // namespace torchrl_pool::dm_control
