// Manipulator: bring a ball or a peg to a target, or insert it. Reference: dm_control/suite/manipulator.py.
#include "arm.h"

namespace torchrl_pool::dm_control {
namespace {

class Manipulator {
 public:
  static constexpr double kControlTimestep = 0.01;

  Manipulator(const mjModel& model, const std::string& task)
      : arm_(model),
        has_peg_(task.ends_with("peg")),
        inserts_(task.starts_with("insert")),
        hand_(Find(model, mjOBJ_BODY, "hand")),
        object_(Find(model, mjOBJ_BODY, has_peg_ ? "peg" : "ball")),
        target_(Find(model, mjOBJ_BODY, has_peg_ ? "target_peg" : "target_ball")),
        receptacle_(inserts_ ? Find(model, mjOBJ_BODY, has_peg_ ? "slot" : "cup") : -1),
        grasp_(Find(model, mjOBJ_SITE, "grasp")) {
    const auto site = [&](const char* name) { return Find(model, mjOBJ_SITE, name); };
    if (has_peg_) {
      grasping_ = {{{site("peg_grasp"), grasp_}, {site("peg_pinch"), site("pinch")}}};
      bringing_ = {{{site("peg"), site("target_peg")}, {site("target_peg_tip"), site("peg_tip")}}};
    } else {
      bringing_ = {{{site("ball"), site("target_ball")}, {}}};
    }
    const std::string object = has_peg_ ? "peg_" : "ball_";
    for (int i = 0; i < 3; ++i) {
      const int joint = Find(model, mjOBJ_JOINT, (object + "xzy"[i]).c_str());
      positions_[i] = model.jnt_qposadr[joint];
      velocities_[i] = model.jnt_dofadr[joint];
    }
    const char* const touches[] = {"palm_touch", "finger_touch", "thumb_touch", "fingertip_touch",
                                   "thumbtip_touch"};
    std::transform(touches, touches + 5, touches_,
                   [&](const char* name) { return SensorAddress(model, name); });
  }

  void Prepare(Physics& physics) const {
    std::vector<Part> places, rotations;  // as SetPose changes them
    for (const int body : {target_, receptacle_}) {
      if (body < 0) continue;
      for (const int i : {0, 2}) {
        places.push_back({3 * body + i, 1});
        rotations.push_back({4 * body + i, 1});
      }
    }
    physics.Own(&mjModel::body_pos, 3 * physics.model().nbody, places);
    physics.Own(&mjModel::body_quat, 4 * physics.model().nbody, rotations);
  }

  void Initialize(Physics& physics, LegacyRng& random) const {
    mjData& data = physics.data();
    physics.UntilNothingTouches([&] {
      arm_.Randomize(physics, random);
      const double target_x = random.Uniform(-0.4, 0.4), target_z = random.Uniform(0.1, 0.4);
      const double target_angle = inserts_ ? random.Uniform(-kPi / 3, kPi / 3) : random.Uniform(-kPi, kPi);
      const Pose pose = {target_x, target_z, std::cos(target_angle / 2), std::sin(target_angle / 2)};
      if (inserts_) SetPose(physics.own(), receptacle_, pose);
      SetPose(physics.own(), target_, pose);

      double x = target_x, z = target_z, angle = target_angle;
      const double where = random.Random();
      if (where < 0.1) {  // in the hand
        physics.Touches();
        const double *place = physics.site_position(grasp_), *frame = data.site_xmat + 9 * grasp_;
        x = place[0];
        z = place[2];
        angle = kPi - std::atan2(frame[6], frame[0]);
      } else if (where >= 0.1 + 0.1) {  // anywhere but in the target
        x = random.Uniform(-0.5, 0.5);
        z = random.Uniform(0, 0.7);
        angle = random.Uniform(0, 2 * kPi);
        data.qvel[velocities_[0]] = random.Uniform(-5, 5);
      }
      data.qpos[positions_[0]] = x;
      data.qpos[positions_[1]] = z;
      data.qpos[positions_[2]] = angle;
    });
  }

  void Observe(const Physics& physics, Observer& observe) const {
    arm_.Observe(physics, observe);
    Writer touch = observe("touch", 5);
    for (const int sensor : touches_) touch.Add(std::log1p(*physics.sensor(sensor)));
    const auto pose = [&](const char* name, int body) {
      Writer writer = observe(name, 4);
      AddPose(physics, body, writer);
    };
    pose("hand_pos", hand_);
    pose("object_pos", object_);
    Writer velocity = observe("object_vel", 3);
    for (const int i : velocities_) velocity.Add(physics.data().qvel[i]);
    pose("target_pos", target_);
  }

  double Reward(const Physics& physics) const {
    const auto closeness = [&](const SitePair& sites) {
      return Gaussian(SiteDistance(physics, sites[0], sites[1]), {0, 0.01}, 0.02);
    };
    if (!has_peg_) return closeness(bringing_[0]);
    const double grasping = (closeness(grasping_[0]) + closeness(grasping_[1])) / 2;
    const double bringing = (closeness(bringing_[0]) + closeness(bringing_[1])) / 2;
    return std::max(bringing, grasping / 3);
  }

 private:
  using SitePair = std::array<int, 2>;

  const Arm arm_;
  const bool has_peg_, inserts_;
  const int hand_, object_, target_, receptacle_, grasp_;
  std::array<SitePair, 2> grasping_{}, bringing_{};
  int positions_[3], velocities_[3], touches_[5];
};

const bool registered =
    RegisterTasks<Manipulator>("manipulator", {{"bring_ball", "bring a ball to a target with a planar arm"},
                                               {"bring_peg", "bring a peg to a target with a planar arm"},
                                               {"insert_ball", "put a ball into a basket with a planar arm"},
                                               {"insert_peg", "put a peg into a slot with a planar arm"}});

}  // namespace
}  // namespace torchrl_pool::dm_control
