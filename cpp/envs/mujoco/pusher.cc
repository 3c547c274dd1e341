// Pusher: push an object to a goal with a robot arm. Reference: gymnasium/envs/mujoco/pusher_v5.py. Version 4
// is not there: the reference refuses to run it on MuJoCo 3 and later.
#include <array>

#include "gymnasium_env.h"
#include "numpy_blas.h"

namespace torchrl_pool::mujoco {
namespace {

class Pusher : public GymnasiumEnv {
 public:
  struct Options : GymnasiumOptions {
    double reward_near_weight = 0.5;
    double reward_dist_weight = 1;
    double reward_control_weight = 0.1;

    int tip = 0, object = 0, goal = 0;  // bodies

    Options() : GymnasiumOptions("pusher_v5.xml", 5, {{{"trackbodyid", {-1}}, {"distance", {4.0}}}}) {}

    template <class Visitor>
    void Visit(Visitor& visit) {
      VisitModel(visit);
      VisitCamera(visit);
      visit("reward_near_weight", reward_near_weight, "weight of the distance from fingertip to object");
      visit("reward_dist_weight", reward_dist_weight, "weight of the distance from object to goal");
      visit("reward_control_weight", reward_control_weight, "weight of the control cost");
      VisitView(visit);
    }
    void Open() {
      GymnasiumOptions::Open();
      NeedCoordinates(7, 7);
      tip = Find(*model, mjOBJ_BODY, "tips_arm");
      object = Find(*model, mjOBJ_BODY, "object");
      goal = Find(*model, mjOBJ_BODY, "goal");
    }
  };

  enum Output { kObservation, kRewardDist, kRewardCtrl, kRewardNear };

  static Specs MakeSpecs(const Options& options) {
    return {Observation("observation", Box<double>({23}),
                        "positions and velocities of the arm; places of fingertip, object and goal"),
            ScalarInfo("reward_dist", "part of the reward for the object's place"),
            ControlInfo("reward_ctrl", "part of the reward for small controls"),
            ScalarInfo("reward_near", "part of the reward for the fingertip's place"), options.Control()};
  }

  explicit Pusher(const Options& options) : GymnasiumEnv(options), options_(options) {}

  void Reset(Row& row) {
    std::vector<double> qpos = InitialPositions();
    double* place = qpos.data() + qpos.size() - 4;  // of the object, then of the goal
    do {
      place[0] = rng().Uniform(-0.3, 0);
      place[1] = rng().Uniform(-0.2, 0.2);
    } while (!(Norm(std::array{place[0], place[1]}) > 0.17));
    place[2] = place[3] = 0;
    std::vector<double> qvel(static_cast<std::size_t>(model().nv));
    for (double& velocity : qvel) velocity = 0 + rng().Uniform(-0.005, 0.005);
    std::fill(qvel.end() - 4, qvel.end(), 0.0);
    ResetTo(qpos, qvel);
    Observe(row);
    ClearInfos(row, kRewardDist, kRewardNear, kRewardCtrl);
  }

  Outcome Step(Row& row) {
    StepSimulation(row);
    const double near = -Distance(options_.object, options_.tip) * options_.reward_near_weight;
    const double dist = -Distance(options_.object, options_.goal) * options_.reward_dist_weight;
    const float control = -ControlCost(options_.reward_control_weight, row);
    Observe(row);
    PutInfo(row, kRewardDist, dist);
    PutInfo(row, kRewardCtrl, control);
    PutInfo(row, kRewardNear, near);
    return {.reward = dist + control + near};
  }

 private:
  const double* PlaceOf(int body) const { return data().xpos + 3 * body; }
  double Distance(int a, int b) const {
    const double *from = PlaceOf(a), *to = PlaceOf(b);
    return Norm(std::array{from[0] - to[0], from[1] - to[1], from[2] - to[2]});
  }
  void Observe(Row& row) const {
    Writer(row.Out<double>(kObservation))
        .Add(data().qpos, 7)
        .Add(data().qvel, 7)
        .Add(PlaceOf(options_.tip), 3)
        .Add(PlaceOf(options_.object), 3)
        .Add(PlaceOf(options_.goal), 3);
  }

  const Options& options_;
};

const bool registered = Register<Pusher>({.id = "Pusher-v5",
                                          .description = "push an object to a goal with a robot arm",
                                          .max_episode_steps = 100,
                                          .reward_threshold = 0});

}  // namespace
}  // namespace torchrl_pool::mujoco
