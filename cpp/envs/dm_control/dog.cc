// Dog: stand, walk, trot, run, fetch a thrown ball. Reference: dm_control/suite/dog.py.
#include "suite.h"

namespace torchrl_pool::dm_control {
namespace {

class Dog {
 public:
  static constexpr double kControlTimestep = 0.015;

  // initial: in the default pose.
  Dog(const Physics& initial, const std::string& task)
      : speed_(task == "walk"   ? 1
               : task == "trot" ? 3
               : task == "run"  ? 9
                                : 0),
        fetches_(task == "fetch") {
    const mjModel& model = initial.model();
    const auto body = [&](const char* name) { return Find(model, mjOBJ_BODY, name); };
    const auto sensor = [&](const char* name) { return SensorAddress(model, name); };
    skull_ = body("skull");
    torso_ = body("torso");
    pelvis_ = body("pelvis");
    velocity_ = sensor("torso_linvel");
    inertial_ = {sensor("accelerometer"), sensor("velocimeter"), sensor("gyro")};
    feet_ = {sensor("foot_L"), sensor("foot_R"), sensor("hand_L"), sensor("hand_R")};
    touches_ = {sensor("palm_L"), sensor("palm_R"), sensor("sole_L"), sensor("sole_R")};
    for (int joint = 0; joint < model.njnt; ++joint) {
      if (model.jnt_type[joint] == mjJNT_HINGE) hinges_.push_back(joint);
    }
    torso_height_ = initial.body_position(torso_)[2] * 0.9;
    pelvis_height_ = initial.body_position(pelvis_)[2] * 0.9;
    weight_ = -model.opt.gravity[2] * model.body_subtreemass[torso_];
    floor_size_ = model.geom_size[3 * Find(model, mjOBJ_GEOM, "floor")];
    root_ = Find(model, mjOBJ_JOINT, "root");
    if (!fetches_) return;
    ball_root_ = Find(model, mjOBJ_JOINT, "ball_root");
    ball_ = Find(model, mjOBJ_GEOM, "ball");
    target_ = Find(model, mjOBJ_GEOM, "target");
    head_ = Find(model, mjOBJ_SITE, "head");
    upper_bite_ = Find(model, mjOBJ_SITE, "upper_bite");
    lower_bite_ = Find(model, mjOBJ_SITE, "lower_bite");
  }

  void Initialize(Physics& physics, LegacyRng& random) const {
    const mjModel& model = physics.model();
    mjData& data = physics.data();
    const double azimuth = random.Uniform(0, 2 * kPi);
    const double orientation[4] = {std::cos(azimuth / 2), 0, 0, std::sin(azimuth / 2)};
    std::copy_n(orientation, 4, data.qpos + model.jnt_qposadr[root_] + 3);
    for (const int i : {0, 1, 5}) data.qvel[i] = 2 * random.StandardNormal();
    for (int i = 0; i < model.nu; ++i) {
      const double* range = model.actuator_ctrlrange + 2 * i;
      data.act[i] = random.Uniform(range[0], range[1]);
    }
    if (fetches_) ThrowBall(physics, random);
  }

  void Observe(const Physics& physics, Observer& observe) const {
    const mjModel& model = physics.model();
    const mjData& data = physics.data();
    const auto num_hinges = static_cast<std::int64_t>(hinges_.size());
    Writer angles = observe("joint_angles", num_hinges);
    for (const int hinge : hinges_) angles.Add(data.qpos[model.jnt_qposadr[hinge]]);
    Writer velocities = observe("joint_velocites", num_hinges);  // the reference's spelling
    for (const int hinge : hinges_) velocities.Add(data.qvel[model.jnt_dofadr[hinge]]);
    observe("torso_pelvis_height", 2).Add(Height(physics, torso_)).Add(Height(physics, pelvis_));
    Writer projection = observe("z_projection", 9);
    for (const int body : {skull_, torso_, pelvis_}) projection.Add(physics.body_frame(body) + 6, 3);
    observe("torso_com_velocity", 3).Add(TorsoVelocity(physics));
    Writer inertial = observe("inertial_sensors", 9);
    for (const int sensor : inertial_) inertial.Add(physics.sensor(sensor), 3);
    Writer forces = observe("foot_forces", 12);
    for (const int sensor : feet_) forces.Add(physics.sensor(sensor), 3);
    Writer touch = observe("touch_sensors", 4);
    for (const int sensor : touches_) touch.Add(*physics.sensor(sensor));
    observe("actuator_state", model.na).Add(data.act, model.na);
    if (!fetches_) return;
    const double *frame = data.site_xmat + 9 * head_, *head = physics.site_position(head_);
    const Vector head_velocity = Velocity(physics, mjOBJ_SITE, head_);
    const Vector ball_velocity = Velocity(physics, mjOBJ_GEOM, ball_);
    observe("ball_state", 6)
        .Add(Turned(Between(head, physics.geom_position(ball_)), frame))
        .Add(Turned(Between(head_velocity.data(), ball_velocity.data()), frame));
    observe("target_position", 3).Add(Turned(Between(head, physics.geom_position(target_)), frame));
  }

  double Reward(const Physics& physics) const {
    static const double least_upright = std::cos(30 * (kPi / 180));
    double reward = Gaussian(Height(physics, torso_), AtLeast(torso_height_), torso_height_);
    reward *= Gaussian(Height(physics, pelvis_), AtLeast(pelvis_height_), pelvis_height_);
    for (const int body : {skull_, torso_, pelvis_}) {
      reward *= Linear(physics.body_frame(body)[8], AtLeast(least_upright), least_upright + 1);
    }
    double touch = 0;
    for (const int sensor : touches_) touch += *physics.sensor(sensor);
    reward *= Linear(touch, AtLeast(weight_), weight_, 0.9);
    if (speed_ > 0) {
      const double forward = Linear(TorsoVelocity(physics)[0], {speed_, 2 * speed_}, std::max(1.0, speed_));
      reward *= (4 * forward + 1) / 5;
    }
    if (fetches_) {
      const auto [reach, fetch] = ReachAndFetch(physics);
      reward = reward * reach * fetch;
    }
    return reward;
  }

 private:
  static double Height(const Physics& physics, int body) { return physics.body_position(body)[2]; }
  Vector TorsoVelocity(const Physics& physics) const {
    const double* velocity = physics.sensor(velocity_);
    return Turned({velocity[0], velocity[1], velocity[2]}, physics.body_frame(torso_));
  }
  static Vector Velocity(const Physics& physics, mjtObj kind, int id) {
    double velocity[6];
    mj_objectVelocity(&physics.model(), &physics.data(), kind, id, velocity, 0);
    return {velocity[3], velocity[4], velocity[5]};
  }

  // Towards the middle, with some noise.
  void ThrowBall(Physics& physics, LegacyRng& random) const {
    const mjModel& model = physics.model();
    const double radius = 0.75 * floor_size_;
    const double azimuth = random.Uniform(0, 2 * kPi);
    const double position[3] = {radius * std::sin(azimuth), radius * std::cos(azimuth), 0.05};
    std::copy_n(position, 3, physics.data().qpos + model.jnt_qposadr[ball_root_]);
    const double height = random.Uniform(0, 3);
    const double gravity = -model.opt.gravity[2];
    const double speed = random.Uniform(0, 5);
    const double x = -std::sin(azimuth) + 0.05 * random.StandardNormal();
    const double y = -std::cos(azimuth) + 0.05 * random.StandardNormal();
    const double velocity[3] = {speed * x, speed * y, std::sqrt(2 * gravity * height)};
    std::copy_n(velocity, 3, physics.data().qvel + model.jnt_dofadr[ball_root_]);
  }

  std::array<double, 2> ReachAndFetch(const Physics& physics) const {
    const mjModel& model = physics.model();
    const double* ball = physics.geom_position(ball_);
    const auto from_bite = [&](int site) { return Norm(Between(physics.site_position(site), ball)); };
    const double from_mouth = 0.5 * (from_bite(upper_bite_) + from_bite(lower_bite_));
    const double reach = (6 * Reciprocal(from_mouth, {0, model.site_size[3 * upper_bite_]}, 2) + 1) / 7;
    const double target_radius = model.geom_size[3 * target_];
    const double from_target = Norm(Between(physics.geom_position(target_), ball));
    const double fetch = (Reciprocal(from_target, {0, target_radius}, floor_size_) + 1) / 2;
    return {from_target < 2 * target_radius ? 1 : reach, fetch};  // it may let go of a ball that is there
  }

  const double speed_;
  const bool fetches_;
  int skull_, torso_, pelvis_, velocity_, root_;
  std::array<int, 3> inertial_;
  std::array<int, 4> feet_, touches_;
  std::vector<int> hinges_;
  double torso_height_, pelvis_height_, weight_, floor_size_;
  int ball_root_ = -1, ball_ = -1, target_ = -1, head_ = -1, upper_bite_ = -1, lower_bite_ = -1;
};

const bool registered = RegisterTasks<Dog>("dog", {{"stand", "stand with a dog"},
                                                   {"walk", "walk with a dog"},
                                                   {"trot", "trot with a dog"},
                                                   {"run", "run with a dog"},
                                                   {"fetch", "fetch a thrown ball with a dog"}});

}  // namespace
}  // namespace torchrl_pool::dm_control
