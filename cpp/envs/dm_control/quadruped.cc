// Quadruped: walk, run, leave a bowl, fetch a ball. Reference: dm_control/suite/quadruped.py.
#include <stdexcept>

#include "suite.h"
#include "terrain.h"

namespace torchrl_pool::dm_control {
namespace {

class Quadruped {
 public:
  static constexpr double kControlTimestep = 0.02;

  Quadruped(const mjModel& model, const std::string& task)
      : speed_(task == "walk" ? 0.5 : 5),
        escapes_(task == "escape"),
        fetches_(task == "fetch"),
        torso_(Find(model, mjOBJ_BODY, "torso")),
        workspace_(Find(model, mjOBJ_SITE, "workspace")),
        root_(Find(model, mjOBJ_JOINT, "root")),
        velocimeter_(SensorAddress(model, "velocimeter")),
        floor_size_(model.geom_size[3 * Find(model, mjOBJ_GEOM, "floor")]) {
    for (int joint = 0; joint < model.njnt; ++joint) {
      if (model.jnt_type[joint] == mjJNT_HINGE) hinges_.push_back(joint);
    }
    imu_ = SensorsOf(model, {mjSENS_GYRO, mjSENS_ACCELEROMETER});
    force_torque_ = SensorsOf(model, {mjSENS_FORCE, mjSENS_TORQUE});
    if (escapes_) rangefinders_ = SensorsOf(model, {mjSENS_RANGEFINDER});
    if (fetches_) {
      ball_ = Find(model, mjOBJ_BODY, "ball");
      ball_root_ = Find(model, mjOBJ_JOINT, "ball_root");
      ball_radius_ = model.geom_size[3 * Find(model, mjOBJ_GEOM, "ball")];
      target_ = Find(model, mjOBJ_SITE, "target");
    }
  }

  void Prepare(Physics& physics) const {
    const std::int64_t size = physics.model().nhfielddata;
    if (escapes_) physics.Own(&mjModel::hfield_data, size, {{0, size}});
  }

  void Initialize(Physics& physics, LegacyRng& random) const {
    if (fetches_) return InitializeFetch(physics, random);
    if (escapes_) DrawTerrain(physics.own(), random);
    double orientation[4];
    RandomDirection(random, 4, orientation);
    RaiseFromGround(physics, 0, 0, orientation);
  }

  void Observe(const Physics& physics, Observer& observe) const {
    const mjModel& model = physics.model();
    const mjData& data = physics.data();
    Writer state = observe("egocentric_state", static_cast<std::int64_t>(2 * hinges_.size()) + model.na);
    for (const int hinge : hinges_) state.Add(data.qpos[model.jnt_qposadr[hinge]]);
    for (const int hinge : hinges_) state.Add(data.qvel[model.jnt_dofadr[hinge]]);
    state.Add(data.act, model.na);
    observe("torso_velocity", 3).Add(physics.sensor(velocimeter_), 3);
    observe.Number("torso_upright", Upright(physics));
    AddSensors(physics, imu_, observe("imu", Size(imu_)), [](double x) { return x; });
    AddSensors(physics, force_torque_, observe("force_torque", Size(force_torque_)),
               [](double x) { return std::asinh(x); });
    const double *frame = physics.body_frame(torso_), *torso = physics.body_position(torso_);
    if (escapes_) {
      observe("origin", 3).Add(Turned({-torso[0], -torso[1], -torso[2]}, frame));
      AddSensors(physics, rangefinders_, observe("rangefinder", Size(rangefinders_)),
                 [](double x) { return x == -1.0 ? 1.0 : std::tanh(x); });
    }
    if (fetches_) {
      const double *ball = data.qvel + model.jnt_dofadr[ball_root_],
                   *root = data.qvel + model.jnt_dofadr[root_];
      const std::array<Vector, 3> rows = {Between(torso, physics.body_position(ball_)), Between(root, ball),
                                          Vector{ball[3], ball[4], ball[5]}};
      double turned[9];
      Turn(rows[0].data(), 3, frame, turned);
      observe("ball_state", 9).Add(turned, 9);
      observe("target_position", 3).Add(Turned(Between(torso, physics.site_position(target_)), frame));
    }
  }

  double Reward(const Physics& physics) const {
    const double least_upright = std::cos((escapes_ ? 20 : 0) * (kPi / 180));
    const double upright = Linear(Upright(physics), AtLeast(least_upright), 1 + least_upright);
    if (escapes_) {
      const double size = physics.model().hfield_size[0];
      return upright * Linear(Norm(physics.site_position(workspace_), 3), AtLeast(size), size);
    }
    if (fetches_) return upright * ReachThenFetch(physics);
    return upright * Linear(*physics.sensor(velocimeter_), AtLeast(speed_), speed_, 0.5);
  }

 private:
  using Sensors = std::vector<int>;

  static Sensors SensorsOf(const mjModel& model, std::initializer_list<int> types) {
    Sensors sensors;
    for (int i = 0; i < model.nsensor; ++i) {
      if (std::find(types.begin(), types.end(), model.sensor_type[i]) == types.end()) continue;
      for (int k = 0; k < model.sensor_dim[i]; ++k) sensors.push_back(model.sensor_adr[i] + k);
    }
    return sensors;
  }
  static std::int64_t Size(const Sensors& sensors) { return static_cast<std::int64_t>(sensors.size()); }
  template <class Function>
  static void AddSensors(const Physics& physics, const Sensors& sensors, Writer writer,
                         const Function& function) {
    for (const int sensor : sensors) writer.Add(function(*physics.sensor(sensor)));
  }

  static void DrawTerrain(mjModel& model, LegacyRng& random) {
    const auto fine = static_cast<std::size_t>(model.hfield_nrow[0]);
    const auto coarse = static_cast<std::size_t>(2 * model.hfield_size[0] / 2);  // bumps of two metres
    std::vector<double> bumps(coarse * coarse);
    for (double& bump : bumps) bump = random.Uniform(0.15, 1);
    MakeTerrain(bumps, coarse, fine, model.hfield_data + model.hfield_adr[0]);
  }

  // To the lowest place, in steps of a centimetre, where nothing touches.
  void RaiseFromGround(Physics& physics, double x, double y, const double* orientation) const {
    double z = 0;
    const auto place = [&] {
      const double position[3] = {x, y, z};
      double* qpos = physics.data().qpos + physics.model().jnt_qposadr[root_];
      std::copy_n(orientation, 4, std::copy_n(position, 3, qpos));
    };
    for (int attempt = 0; place(), physics.Touches(); ++attempt) {
      if (attempt == 10'000) throw std::runtime_error("failed to find a configuration without contacts");
      z += 0.01;
    }
    physics.Reset();
    place();
    physics.Forward();
  }

  void InitializeFetch(Physics& physics, LegacyRng& random) const {
    const double azimuth = random.Uniform(0, 2 * kPi);
    const double orientation[4] = {std::cos(azimuth / 2), 0, 0, std::sin(azimuth / 2)};
    const double radius = 0.9 * floor_size_;
    const double x = random.Uniform(-radius, radius), y = random.Uniform(-radius, radius);
    RaiseFromGround(physics, x, y, orientation);
    double* ball = physics.data().qpos + physics.model().jnt_qposadr[ball_root_];
    double* velocity = physics.data().qvel + physics.model().jnt_dofadr[ball_root_];
    for (int axis = 0; axis < 2; ++axis) ball[axis] = random.Uniform(-radius, radius);
    ball[2] = 2;
    for (int axis = 0; axis < 2; ++axis) velocity[axis] = 5 * random.StandardNormal();
  }

  double Upright(const Physics& physics) const { return physics.body_frame(torso_)[8]; }
  double ReachThenFetch(const Physics& physics) const {
    const double arena_radius = floor_size_ * std::sqrt(2.0);
    const double* sizes = physics.model().site_size;
    const auto near_ball = [&](int site, double reach) {
      const Vector way = Between(physics.body_position(ball_), physics.site_position(site));
      return Linear(Norm(way.data(), 2), {0, reach}, arena_radius);
    };
    const double reach = near_ball(workspace_, sizes[3 * workspace_] + ball_radius_);
    const double fetch = near_ball(target_, sizes[3 * target_]);
    return reach * (0.5 + 0.5 * fetch);
  }

  const double speed_;
  const bool escapes_, fetches_;
  const int torso_, workspace_, root_, velocimeter_;
  const double floor_size_;
  std::vector<int> hinges_;
  Sensors imu_, force_torque_, rangefinders_;
  int ball_ = -1, ball_root_ = -1, target_ = -1;
  double ball_radius_ = 0;
};

const bool registered =
    RegisterTasks<Quadruped>("quadruped", {{"walk", "walk with four legs"},
                                           {"run", "run with four legs"},
                                           {"escape", "climb out of a bowl with random bumps"},
                                           {"fetch", "bring a ball to a target with four legs"}});

}  // namespace
}  // namespace torchrl_pool::dm_control
