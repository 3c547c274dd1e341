// InvertedDoublePendulum: balance two poles, one on top of the other, on a cart.
// Reference: gymnasium/envs/mujoco/inverted_double_pendulum_v5.py, _v4.py.
#include <cmath>

#include "gymnasium_env.h"
#include "numpy_math.h"

namespace torchrl_pool::mujoco {
namespace {

template <int version>
class InvertedDoublePendulum : public GymnasiumEnv {
 public:
  struct Options : GymnasiumOptions {
    double healthy_reward = 10.0;
    double reset_noise_scale = 0.1;

    // Version 5 defines a view but does not use it.
    Options() : GymnasiumOptions("inverted_double_pendulum.xml", 5, std::nullopt) {
      if (version == 4) {
        default_camera_config = {
            {"trackbodyid", {0}}, {"distance", {4.1225}}, {"lookat", {0.0, 0.0, 0.12250000000000005}}};
      }
    }

    template <class Visitor>
    void Visit(Visitor& visit) {
      if constexpr (version >= 5) {
        VisitModel(visit);
        VisitCamera(visit);
        visit("healthy_reward", healthy_reward, "reward for each step in which the poles stand");
        visit("reset_noise_scale", reset_noise_scale, "scale of the noise on the initial state");
      }
      VisitView(visit);
    }
    void Open() {
      GymnasiumOptions::Open();
      NeedCoordinates(1, 3);
      if (model->nsite < 1) throw InvalidArgument("xml_file: the task needs a model with a site at the tip");
    }
    // Forces of the constraints that are observed.
    std::int64_t num_forces() const { return version >= 5 ? 1 : nv(); }
  };

  enum Output { kObservation, kRewardSurvive, kDistancePenalty, kVelocityPenalty };

  static Specs MakeSpecs(const Options& options) {
    Specs specs = {Observation("observation",
                               Box<double>({2 * options.nq() - 1 + options.nv() + options.num_forces()}),
                               "position of the cart, sines and cosines of the angles, velocities and "
                               "constraint forces, both clipped to 10")};
    if (version >= 5) {
      specs.push_back(ScalarInfo("reward_survive", "part of the reward for standing"));
      specs.push_back(ScalarInfo("distance_penalty", "part of the reward for the tip's place"));
      specs.push_back(ScalarInfo("velocity_penalty", "part of the reward for low velocities"));
    }
    specs.push_back(options.Control());
    return specs;
  }

  explicit InvertedDoublePendulum(const Options& options) : GymnasiumEnv(options), options_(options) {}

  void Reset(Row& row) {
    ResetUniformNormal(options_.reset_noise_scale);
    Observe(row);
    if (version >= 5) ClearInfos(row, kRewardSurvive, kVelocityPenalty);
  }

  Outcome Step(Row& row) {
    StepSimulation(row);
    Observe(row);
    const double x = data().site_xpos[0], y = data().site_xpos[2];
    const double distance_penalty = 0.01 * Square(x) + Square(y - 2);
    const double velocity_penalty = 0.001 * Square(data().qvel[1]) + 0.005 * Square(data().qvel[2]);
    const bool terminated = y <= 1;
    const double bonus = version >= 5 ? options_.healthy_reward * !terminated : 10;
    if constexpr (version >= 5) {
      PutInfo(row, kRewardSurvive, bonus);
      PutInfo(row, kDistancePenalty, -distance_penalty);
      PutInfo(row, kVelocityPenalty, -velocity_penalty);
    }
    return {.reward = bonus - distance_penalty - velocity_penalty, .terminated = terminated};
  }

 private:
  void Observe(Row& row) const {
    const std::int64_t num_angles = model().nq - 1;
    const double* angles = data().qpos + 1;
    Writer writer(row.Out<double>(kObservation));
    writer.Add(data().qpos[0]);
    for (std::int64_t i = 0; i < num_angles; ++i) writer.Add(std::sin(angles[i]));
    for (std::int64_t i = 0; i < num_angles; ++i) writer.Add(std::cos(angles[i]));
    writer.AddClipped(data().qvel, model().nv, -10, 10)
        .AddClipped(data().qfrc_constraint, options_.num_forces(), -10, 10);
  }

  const Options& options_;
};

const TaskInfo kInvertedDoublePendulum{.id = "InvertedDoublePendulum-v5",
                                       .description = "balance two poles, one on top of the other, on a cart",
                                       .max_episode_steps = 1000,
                                       .reward_threshold = 9100};
const bool registered = Register<InvertedDoublePendulum<5>>(kInvertedDoublePendulum) &&
                        Register<InvertedDoublePendulum<4>>(Version4(kInvertedDoublePendulum));

}  // namespace
}  // namespace torchrl_pool::mujoco
