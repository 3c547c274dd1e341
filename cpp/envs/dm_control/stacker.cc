// Stacker: stack boxes with a planar arm. Reference: dm_control/suite/stacker.py.
#include "arm.h"

namespace torchrl_pool::dm_control {
namespace {

class Stacker {
 public:
  static constexpr double kControlTimestep = 0.01;

  Stacker(const mjModel& model, const std::string& task)
      : arm_(model),
        num_boxes_(task == "stack_2" ? 2 : 4),
        hand_(Find(model, mjOBJ_BODY, "hand")),
        target_(Find(model, mjOBJ_BODY, "target")),
        target_site_(Find(model, mjOBJ_SITE, "target")),
        grasp_(Find(model, mjOBJ_SITE, "grasp")),
        box_size_(model.geom_size[3 * Find(model, mjOBJ_GEOM, "target")]) {
    for (int i = 0; i < num_boxes_; ++i) {
      const std::string name = "box" + std::to_string(i);
      Box& box = boxes_.emplace_back();
      box.body = Find(model, mjOBJ_BODY, name.c_str());
      box.site = Find(model, mjOBJ_SITE, name.c_str());
      for (int axis = 0; axis < 3; ++axis) {
        const int joint = Find(model, mjOBJ_JOINT, (name + "_" + "xyz"[axis]).c_str());
        box.positions[axis] = model.jnt_qposadr[joint];
        box.velocities[axis] = model.jnt_dofadr[joint];
      }
    }
  }

  void Prepare(Physics& physics) const {
    physics.Own(&mjModel::body_pos, 3 * physics.model().nbody, {{3 * target_, 1}, {3 * target_ + 2, 1}});
  }

  void Initialize(Physics& physics, LegacyRng& random) const {
    double* qpos = physics.data().qpos;
    physics.UntilNothingTouches([&] {
      arm_.Randomize(physics, random);
      const int height = 2 * static_cast<int>(random.Integer(static_cast<std::uint32_t>(num_boxes_))) + 1;
      double* target = physics.own().body_pos + 3 * target_;
      target[2] = box_size_ * height;
      target[0] = random.Uniform(-0.37, 0.37);
      for (const Box& box : boxes_) {
        qpos[box.positions[0]] = random.Uniform(0.1, 0.3);
        qpos[box.positions[2]] = random.Uniform(0, 0.7);
        qpos[box.positions[1]] = random.Uniform(0, 2 * kPi);
      }
    });
  }

  void Observe(const Physics& physics, Observer& observe) const {
    arm_.Observe(physics, observe);
    const std::int64_t num_touches = physics.model().nsensordata;
    observe("touch", num_touches).AddEach(physics.sensor(0), num_touches, [](double x) {
      return std::log1p(x);
    });
    Writer hand = observe("hand_pos", 4);
    AddPose(physics, hand_, hand);
    Writer places = observe("box_pos", 4, num_boxes_);
    for (const Box& box : boxes_) AddPose(physics, box.body, places);
    Writer velocities = observe("box_vel", 3 * num_boxes_);
    for (const Box& box : boxes_) {
      for (const int i : box.velocities) velocities.Add(physics.data().qvel[i]);
    }
    const double* target = physics.body_position(target_);
    observe("target_pos", 2).Add(target[0]).Add(target[2]);
  }

  double Reward(const Physics& physics) const {
    double nearest = std::numeric_limits<double>::infinity();
    for (const Box& box : boxes_) nearest = std::min(nearest, SiteDistance(physics, box.site, target_site_));
    const double box_is_close = Gaussian(nearest, {}, 2 * box_size_);
    return box_is_close * Gaussian(SiteDistance(physics, grasp_, target_site_), AtLeast(0.1), 0.01);
  }

 private:
  struct Box {
    int body, site, positions[3], velocities[3];
  };

  const Arm arm_;
  const int num_boxes_, hand_, target_, target_site_, grasp_;
  const double box_size_;
  std::vector<Box> boxes_;
};

const bool registered = RegisterTasks<Stacker>(
    "stacker",
    {{"stack_2", "stack two boxes with a planar arm"}, {"stack_4", "stack four boxes with a planar arm"}});

}  // namespace
}  // namespace torchrl_pool::dm_control
