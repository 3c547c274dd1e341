// Humanoid, and one with the joints of the CMU motion capture data: stand, walk and run. Reference:
// dm_control/suite/humanoid.py, humanoid_CMU.py.
#include "suite.h"

namespace torchrl_pool::dm_control {
namespace {

// How the two differ.
struct Anatomy {
  const char* trunk;
  int up;  // which component of its frame points upwards
  const char* velocity_sensor;
  const char* extremities[4];
};
constexpr Anatomy kHumanoid = {
    "torso", 8, "torso_subtreelinvel", {"left_hand", "left_foot", "right_hand", "right_foot"}};
constexpr Anatomy kHumanoidCmu = {"thorax", 7, "thorax_subtreelinvel", {"lhand", "lfoot", "rhand", "rfoot"}};

template <const Anatomy& anatomy, double control_timestep>
class Humanoid {
 public:
  static constexpr double kControlTimestep = control_timestep;

  Humanoid(const mjModel& model, const std::string& task)
      : trunk_(Find(model, mjOBJ_BODY, anatomy.trunk)),
        head_(Find(model, mjOBJ_BODY, "head")),
        velocity_(SensorAddress(model, anatomy.velocity_sensor)),
        speed_(task == "stand"  ? 0
               : task == "walk" ? 1
                                : 10),
        has_pure_state_(task == "run_pure_state") {
    std::transform(anatomy.extremities, anatomy.extremities + 4, extremities_,
                   [&](const char* body) { return Find(model, mjOBJ_BODY, body); });
  }

  void Initialize(Physics& physics, LegacyRng& random) const {
    physics.UntilNothingTouches([&] { RandomizeJoints(physics, random); });
  }

  void Observe(const Physics& physics, Observer& observe) const {
    const mjModel& model = physics.model();
    const mjData& data = physics.data();
    if (has_pure_state_) {
      observe("position", model.nq).Add(data.qpos, model.nq);
    } else {
      observe("joint_angles", model.nq - 7).Add(data.qpos + 7, model.nq - 7);
      observe.Number("head_height", HeadHeight(physics));
      const double* frame = physics.body_frame(trunk_);
      Writer extremities = observe("extremities", 12);
      for (const int body : extremities_) {
        const Vector way = Between(physics.body_position(trunk_), physics.body_position(body));
        extremities.Add(Turned(way, frame));
      }
      observe("torso_vertical", 3).Add(frame + 6, 3);
      observe("com_velocity", 3).Add(physics.sensor(velocity_), 3);
    }
    observe("velocity", model.nv).Add(data.qvel, model.nv);
  }

  double Reward(const Physics& physics) const {
    const double standing = Gaussian(HeadHeight(physics), AtLeast(1.4), 1.4 / 4);
    const double upright = Linear(physics.body_frame(trunk_)[anatomy.up], AtLeast(0.9), 1.9);
    const double stand_reward = standing * upright;
    const double mean = MeanSmallControl(physics.data().ctrl, static_cast<int>(physics.model().nu));
    const double small_control = (4 + mean) / 5;
    const double* velocity = physics.sensor(velocity_);
    if (speed_ == 0) {
      const double dont_move =
          (GaussianOfElement(velocity[0], {}, 2) + GaussianOfElement(velocity[1], {}, 2)) / 2;
      return small_control * stand_reward * dont_move;
    }
    const double move = Linear(Norm(velocity, 2), AtLeast(speed_), speed_);
    return small_control * stand_reward * ((5 * move + 1) / 6);
  }

 private:
  double HeadHeight(const Physics& physics) const { return physics.body_position(head_)[2]; }

  const int trunk_, head_, velocity_;
  const double speed_;
  const bool has_pure_state_;
  int extremities_[4];
};

const bool registered =
    RegisterTasks<Humanoid<kHumanoid, 0.025>>(
        "humanoid",
        {{"stand", "stand up with a humanoid"},
         {"walk", "walk with a humanoid"},
         {"run", "run with a humanoid"},
         {"run_pure_state", "run with a humanoid, of which positions and velocities are seen"}}) &&
    RegisterTasks<Humanoid<kHumanoidCmu, 0.02>>("humanoid_CMU", {{"stand", "stand up with 56 joints"},
                                                                 {"walk", "walk with 56 joints"},
                                                                 {"run", "run with 56 joints"}});

}  // namespace
}  // namespace torchrl_pool::dm_control
