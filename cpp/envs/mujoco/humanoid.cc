// Humanoid: walk forwards on two legs. Reference: gymnasium/envs/mujoco/humanoid_v5.py, _v4.py.
#include <array>
#include <limits>

#include "gymnasium_env.h"
#include "humanoid_observation.h"
#include "numpy_sum.h"

namespace torchrl_pool::mujoco {
namespace {

template <int version>
class Humanoid : public GymnasiumEnv {
 public:
  struct Options : GymnasiumOptions {
    double forward_reward_weight = 1.25;
    double ctrl_cost_weight = 0.1;
    double contact_cost_weight = 5e-7;
    std::array<double, 2> contact_cost_range{-std::numeric_limits<double>::infinity(), 10.0};
    double healthy_reward = 5.0;
    bool terminate_when_unhealthy = true;
    std::array<double, 2> healthy_z_range{1.0, 2.0};
    double reset_noise_scale = 1e-2;
    HumanoidObservation observation = {};

    Options()
        : GymnasiumOptions("humanoid.xml", 5,
                           {{{"trackbodyid", {1}},
                             {"distance", {4.0}},
                             {"lookat", {0.0, 0.0, 2.0}},
                             {"elevation", {-20.0}}}}) {}

    template <class Visitor>
    void Visit(Visitor& visit) {
      if constexpr (version >= 5) {
        VisitModel(visit);
        VisitCamera(visit);
      }
      visit("forward_reward_weight", forward_reward_weight, "weight of the forward reward");
      visit("ctrl_cost_weight", ctrl_cost_weight, "weight of the control cost");
      if constexpr (version >= 5) {
        visit("contact_cost_weight", contact_cost_weight, "weight of the contact cost");
        visit("contact_cost_range", contact_cost_range, "to what the contact cost is clipped");
      }
      visit("healthy_reward", healthy_reward, "reward for each step in which the robot is healthy");
      visit("terminate_when_unhealthy", terminate_when_unhealthy, "end the episode where it is not");
      visit("healthy_z_range", healthy_z_range, "height of a healthy robot (m)");
      visit("reset_noise_scale", reset_noise_scale, "scale of the noise on the initial state");
      observation.VisitExclude(visit);
      if constexpr (version >= 5) observation.VisitIncludes(visit);
      VisitView(visit);
    }
    void Open() {
      GymnasiumOptions::Open();
      NeedCoordinates(3, 6);
    }
  };

  // Version 4 has neither of the tendons and calls the parts of the reward by other names.
  enum Output {
    kObservation,
    kXPosition,
    kYPosition,
    kDistance,
    kXVelocity,
    kYVelocity,
    kRewardForward,
    kRewardCtrl,
    kRewardSurvive,
    kRewardContact,
    kForwardReward = kRewardContact,
    kTendonLength,
    kTendonVelocity
  };

  static Specs MakeSpecs(const Options& options) {
    Specs specs = {
        options.observation.MakeSpec(options, version == 4),
        ScalarInfo("x_position", "position (m)"),
        ScalarInfo("y_position", "position (m)"),
        ScalarInfo("distance_from_origin", "distance from the origin (m)"),
        ScalarInfo("x_velocity", "velocity of the centre of mass over the step (m/s)"),
        ScalarInfo("y_velocity", "velocity of the centre of mass over the step (m/s)"),
        ScalarInfo(version >= 5 ? "reward_forward" : "reward_linvel",
                   "part of the reward for moving forwards"),
        ScalarInfo(version >= 5 ? "reward_ctrl" : "reward_quadctrl", "part of the reward for small controls"),
        ScalarInfo(version >= 5 ? "reward_survive" : "reward_alive", "part of the reward for being healthy")};
    if (version >= 5) {
      const auto num_tendons = static_cast<std::int64_t>(options.model->ntendon);
      specs.push_back(ScalarInfo("reward_contact", "part of the reward for small forces"));
      specs.push_back(Info("tendon_length", Box<double>({num_tendons}), "lengths of the tendons"));
      specs.push_back(Info("tendon_velocity", Box<double>({num_tendons}), "velocities of the tendons"));
    } else {
      specs.push_back(ScalarInfo("forward_reward", "as reward_linvel"));
    }
    specs.push_back(options.Control());
    return specs;
  }

  explicit Humanoid(const Options& options) : GymnasiumEnv(options), options_(options) {}

  void Reset(Row& row) {
    ResetUniform(options_.reset_noise_scale);
    xy_ = MassCenterXy();
    Observe(row);
    ClearInfos(row, kXPosition, kRewardContact);
    if (version >= 5) {
      PutPosition(row, data().qpos[0], data().qpos[1]);
      PutTendons(row);
    }
  }

  Outcome Step(Row& row) {
    const auto before = xy_;
    StepSimulation(row);
    xy_ = MassCenterXy();
    const double x_velocity = (xy_[0] - before[0]) / options_.dt();
    const double y_velocity = (xy_[1] - before[1]) / options_.dt();

    const bool healthy =
        options_.healthy_z_range[0] < data().qpos[2] && data().qpos[2] < options_.healthy_z_range[1];
    const double forward_reward = options_.forward_reward_weight * x_velocity;
    const bool rewarded = healthy || (version == 4 && options_.terminate_when_unhealthy);
    const double healthy_reward = rewarded * options_.healthy_reward;
    const double control_cost = options_.ctrl_cost_weight * SquaredControls();
    const double contact_cost = version >= 5 ? ContactCost() : 0;

    Observe(row);
    PutInfo(row, kXVelocity, x_velocity);
    PutInfo(row, kYVelocity, y_velocity);
    PutInfo(row, kRewardForward, forward_reward);
    PutInfo(row, kRewardCtrl, -control_cost);
    PutInfo(row, kRewardSurvive, healthy_reward);
    if constexpr (version >= 5) {
      PutPosition(row, data().qpos[0], data().qpos[1]);
      PutInfo(row, kRewardContact, -contact_cost);
      PutTendons(row);
    } else {
      PutPosition(row, xy_[0], xy_[1]);
      PutInfo(row, kForwardReward, forward_reward);
    }
    return {.reward = forward_reward + healthy_reward - (control_cost + contact_cost),
            .terminated = !healthy && options_.terminate_when_unhealthy};
  }

  template <class Visitor>
  void VisitState(Visitor& visit) {
    GymnasiumEnv::VisitState(visit);
    visit(xy_);
  }

 private:
  // numpy.einsum adds up the bodies in their order, numpy.sum in pairs.
  std::array<double, 2> MassCenterXy() const {
    std::array<double, 2> moment{};
    const auto count = static_cast<std::size_t>(model().nbody);
    for (std::size_t body = 0; body < count; ++body) {
      moment[0] += model().body_mass[body] * data().xipos[3 * body];
      moment[1] += model().body_mass[body] * data().xipos[3 * body + 1];
    }
    const double mass = Sum(model().body_mass, count);
    return {moment[0] / mass, moment[1] / mass};
  }
  double ContactCost() const {
    const auto& [low, high] = options_.contact_cost_range;
    return std::clamp(options_.contact_cost_weight * SquaredContactForces(), low, high);
  }
  static void PutPosition(Row& row, double x, double y) {
    PutInfo(row, kXPosition, x);
    PutInfo(row, kYPosition, y);
    PutInfo(row, kDistance, Norm(std::array{x, y}));
  }
  void PutTendons(Row& row) const {
    PutInfo(row, kTendonLength, data().ten_length, model().ntendon);
    PutInfo(row, kTendonVelocity, data().ten_velocity, model().ntendon);
  }
  void Observe(Row& row) const {
    options_.observation.Write(model(), data(), version == 4, row.Out<double>(kObservation));
  }

  const Options& options_;
  // Of the centre of mass after the last step. Kept here, because MuJoCo derives it from the state before a
  // step's last substep: it cannot be had from the saved state.
  std::array<double, 2> xy_{};
};

const TaskInfo kTask{
    .id = "Humanoid-v5", .description = "walk forwards on two legs", .max_episode_steps = 1000};
const bool registered = Register<Humanoid<5>>(kTask) && Register<Humanoid<4>>(Version4(kTask));

}  // namespace
}  // namespace torchrl_pool::mujoco
