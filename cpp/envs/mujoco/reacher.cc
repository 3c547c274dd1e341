// Reacher: touch a target with a planar arm. Reference: gymnasium/envs/mujoco/reacher_v5.py, _v4.py.
#include <array>
#include <cmath>

#include "gymnasium_env.h"
#include "numpy_blas.h"

namespace torchrl_pool::mujoco {
namespace {

template <int version>
class Reacher : public GymnasiumEnv {
 public:
  struct Options : GymnasiumOptions {
    double reward_dist_weight = 1;
    double reward_control_weight = 1;

    int fingertip = 0, target = 0;  // bodies

    Options() : GymnasiumOptions("reacher.xml", 2, {{{"trackbodyid", {0}}}}) {}

    template <class Visitor>
    void Visit(Visitor& visit) {
      if constexpr (version >= 5) {
        VisitModel(visit);
        VisitCamera(visit);
        visit("reward_dist_weight", reward_dist_weight, "weight of the distance to the target");
        visit("reward_control_weight", reward_control_weight, "weight of the control cost");
      }
      VisitView(visit);
    }
    void Open() {
      GymnasiumOptions::Open();
      NeedCoordinates(4, 2);
      fingertip = Find(*model, mjOBJ_BODY, "fingertip");
      target = Find(*model, mjOBJ_BODY, "target");
    }
    // Version 5 leaves out the height, which is always 0.
    int num_distances() const { return version >= 5 ? 2 : 3; }
  };

  enum Output { kObservation, kRewardDist, kRewardCtrl };

  static Specs MakeSpecs(const Options& options) {
    return {Observation("observation", Box<double>({options.nq() + 4 + options.num_distances()}),
                        "cosines and sines of the angles, place of the target, velocities of the angles, "
                        "fingertip minus target"),
            ScalarInfo("reward_dist", "part of the reward for the fingertip's place"),
            ControlInfo("reward_ctrl", "part of the reward for small controls"), options.Control()};
  }

  explicit Reacher(const Options& options) : GymnasiumEnv(options), options_(options) {}

  void Reset(Row& row) {
    std::vector<double> qpos = InitialPositions();
    for (double& position : qpos) position = rng().Uniform(-0.1, 0.1) + position;
    double* goal = qpos.data() + qpos.size() - 2;
    do {
      goal[0] = rng().Uniform(-0.2, 0.2);
      goal[1] = rng().Uniform(-0.2, 0.2);
    } while (!(Norm(std::array{goal[0], goal[1]}) < 0.2));
    std::vector<double> qvel(static_cast<std::size_t>(model().nv));
    for (double& velocity : qvel) velocity = 0 + rng().Uniform(-0.005, 0.005);
    std::fill(qvel.end() - 2, qvel.end(), 0.0);
    ResetTo(qpos, qvel);
    offset_ = FingertipMinusTarget();
    Observe(row);
    ClearInfos(row, kRewardDist, kRewardCtrl, kRewardCtrl);
  }

  Outcome Step(Row& row) {
    const double distance_before = Norm(offset_);
    StepSimulation(row);
    offset_ = FingertipMinusTarget();
    // Version 4 rewards what was before the step.
    const double distance = version >= 5 ? Norm(offset_) : distance_before;
    const double dist = -distance * options_.reward_dist_weight;
    const float control = -ControlCost(options_.reward_control_weight, row);
    Observe(row);
    PutInfo(row, kRewardDist, dist);
    PutInfo(row, kRewardCtrl, control);
    return {.reward = dist + control};
  }

  template <class Visitor>
  void VisitState(Visitor& visit) {
    GymnasiumEnv::VisitState(visit);
    visit(offset_);
  }

 private:
  std::array<double, 3> FingertipMinusTarget() const {
    const double *from = data().xpos + 3 * options_.target, *to = data().xpos + 3 * options_.fingertip;
    return {to[0] - from[0], to[1] - from[1], to[2] - from[2]};
  }
  void Observe(Row& row) const {
    const double* angles = data().qpos;
    Writer writer(row.Out<double>(kObservation));
    writer.Add(std::cos(angles[0])).Add(std::cos(angles[1]));
    writer.Add(std::sin(angles[0])).Add(std::sin(angles[1]));
    writer.Add(data().qpos + 2, model().nq - 2)
        .Add(data().qvel, 2)
        .Add(offset_.data(), options_.num_distances());
  }

  const Options& options_;
  // After the last step. Kept here, because MuJoCo derives it from the state before a step's last substep: it
  // cannot be had from the saved state.
  std::array<double, 3> offset_{};
};

const TaskInfo kReacher{.id = "Reacher-v5",
                        .description = "touch a target with a planar arm",
                        .max_episode_steps = 50,
                        .reward_threshold = -3.75};
const bool registered = Register<Reacher<5>>(kReacher) && Register<Reacher<4>>(Version4(kReacher));

}  // namespace
}  // namespace torchrl_pool::mujoco
