// Finger: spin or turn a body on a hinge. Reference: dm_control/suite/finger.py.
#include "suite.h"

namespace torchrl_pool::dm_control {
namespace {

class Finger {
 public:
  static constexpr double kControlTimestep = 0.02;

  Finger(const mjModel& model, const std::string& task)
      : hinge_(Find(model, mjOBJ_JOINT, "hinge")),
        target_(Find(model, mjOBJ_SITE, "target")),
        tip_(Find(model, mjOBJ_SITE, "tip")),
        proximal_(SensorAddress(model, "proximal")),
        distal_(SensorAddress(model, "distal")),
        velocities_{SensorAddress(model, "proximal_velocity"), SensorAddress(model, "distal_velocity"),
                    SensorAddress(model, "hinge_velocity")},
        touches_{SensorAddress(model, "touchtop"), SensorAddress(model, "touchbottom")},
        spinner_(SensorAddress(model, "spinner")),
        tip_sensor_(SensorAddress(model, "tip")),
        target_sensor_(SensorAddress(model, "target")),
        spins_(task == "spin"),
        target_radius_(task == "turn_easy" ? 0.07 : 0.03) {
    const double* cap = model.geom_size + 3 * Find(model, mjOBJ_GEOM, "cap1");
    distance_ = (cap[0] + cap[1]) + cap[2];
  }

  void Prepare(Physics& physics) const {
    const mjModel& model = physics.model();
    if (!spins_) {
      physics.Own(&mjModel::site_pos, 3 * model.nsite, {{3 * target_, 1}, {3 * target_ + 2, 1}});
      physics.Own(&mjModel::site_size, 3 * model.nsite, {{3 * target_, 1}});
      return;
    }
    physics.Own(&mjModel::dof_damping, model.nv, {{model.jnt_dofadr[hinge_], 1}});
    physics.Own(&mjModel::site_rgba, 4 * model.nsite, {});
    for (const int site : {target_, tip_}) physics.own().site_rgba[4 * site + 3] = 0;
  }

  void Initialize(Physics& physics, LegacyRng& random) const {
    mjModel& model = physics.own();
    if (spins_) {
      model.dof_damping[model.jnt_dofadr[hinge_]] = 0.03;
    } else {
      const double angle = random.Uniform(-kPi, kPi);
      const double* anchor = physics.data().xanchor + 3 * hinge_;
      model.site_pos[3 * target_] = anchor[0] + distance_ * std::sin(angle);
      model.site_pos[3 * target_ + 2] = anchor[2] + distance_ * std::cos(angle);
      model.site_size[3 * target_] = target_radius_;
    }
    physics.UntilNothingTouches([&] { RandomizeJoints(physics, random); });
  }

  void Observe(const Physics& physics, Observer& observe) const {
    const auto tip = TipPosition(physics);
    observe("position", 4).Add(*physics.sensor(proximal_)).Add(*physics.sensor(distal_)).Add(tip);
    Writer velocity = observe("velocity", 3);
    for (const int sensor : velocities_) velocity.Add(*physics.sensor(sensor));
    Writer touch = observe("touch", 2);
    for (const int sensor : touches_) touch.Add(std::log1p(*physics.sensor(sensor)));
    if (spins_) return;
    observe("target_position", 2).Add(TargetPosition(physics));
    observe.Number("dist_to_target", Distance(physics));
  }

  double Reward(const Physics& physics) const {
    if (spins_) return *physics.sensor(velocities_[2]) <= -15 ? 1 : 0;
    return Distance(physics) <= 0 ? 1 : 0;
  }

 private:
  using Vector2 = std::array<double, 2>;
  // In the x-z plane, from the hinge.
  Vector2 TipPosition(const Physics& physics) const { return FromSpinner(physics, tip_sensor_); }
  Vector2 TargetPosition(const Physics& physics) const { return FromSpinner(physics, target_sensor_); }
  Vector2 FromSpinner(const Physics& physics, int sensor) const {
    const Vector way = Between(physics.sensor(spinner_), physics.sensor(sensor));
    return {way[0], way[2]};
  }
  double Distance(const Physics& physics) const {
    const Vector2 tip = TipPosition(physics), target = TargetPosition(physics);
    const Vector2 way = {target[0] - tip[0], target[1] - tip[1]};
    return Norm(way) - physics.model().site_size[3 * target_];
  }

  const int hinge_, target_, tip_, proximal_, distal_, velocities_[3], touches_[2];
  const int spinner_, tip_sensor_, target_sensor_;
  const bool spins_;
  const double target_radius_;
  double distance_;  // of the target from the hinge
};

const bool registered =
    RegisterTasks<Finger>("finger", {{"spin", "keep a body spinning on its hinge"},
                                     {"turn_easy", "turn a body until its tip is in a large target"},
                                     {"turn_hard", "turn a body until its tip is in a small target"}});

}  // namespace
}  // namespace torchrl_pool::dm_control
