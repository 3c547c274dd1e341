// InvertedPendulum: balance a pole on a cart. Reference: gymnasium/envs/mujoco/inverted_pendulum_v5.py,
// _v4.py.
#include <cmath>

#include "gymnasium_env.h"

namespace torchrl_pool::mujoco {
namespace {

template <int version>
class InvertedPendulum : public GymnasiumEnv {
 public:
  struct Options : GymnasiumOptions {
    double reset_noise_scale = 0.01;

    Options()
        : GymnasiumOptions("inverted_pendulum.xml", 2, {{{"trackbodyid", {0}}, {"distance", {2.04}}}}) {}

    template <class Visitor>
    void Visit(Visitor& visit) {
      if constexpr (version >= 5) {
        VisitModel(visit);
        VisitCamera(visit);
        visit("reset_noise_scale", reset_noise_scale, "scale of the noise on the initial state");
      }
      VisitView(visit);
    }
    void Open() {
      GymnasiumOptions::Open();
      NeedCoordinates(2, 0);
    }
  };

  enum Output { kObservation, kRewardSurvive };

  static Specs MakeSpecs(const Options& options) {
    Specs specs = {
        Observation("observation", Box<double>({options.nq() + options.nv()}), "positions and velocities")};
    if (version >= 5) specs.push_back(ScalarInfo<std::int64_t>("reward_survive", "the reward"));
    specs.push_back(options.Control());
    return specs;
  }

  explicit InvertedPendulum(const Options& options) : GymnasiumEnv(options), options_(options) {}

  void Reset(Row& row) {
    ResetUniform(options_.reset_noise_scale);
    Observe(row);
    if (version >= 5) PutInfo(row, kRewardSurvive, std::int64_t{0});
  }

  Outcome Step(Row& row) {
    StepSimulation(row);
    Observe(row);
    const double* observation = row.Out<double>(kObservation);
    bool terminated = std::abs(observation[1]) > 0.2;
    for (std::int64_t i = 0; i < model().nq + model().nv; ++i) {
      terminated = terminated || !std::isfinite(observation[i]);
    }
    const std::int64_t reward = version >= 5 ? !terminated : 1;
    if (version >= 5) PutInfo(row, kRewardSurvive, reward);
    return {.reward = static_cast<double>(reward), .terminated = terminated};
  }

 private:
  void Observe(Row& row) const { WritePositionsAndVelocities(row.Out<double>(kObservation)); }

  const Options& options_;
};

const TaskInfo kInvertedPendulum{.id = "InvertedPendulum-v5",
                                 .description = "balance a pole on a cart",
                                 .max_episode_steps = 1000,
                                 .reward_threshold = 950};
const bool registered = Register<InvertedPendulum<5>>(kInvertedPendulum) &&
                        Register<InvertedPendulum<4>>(Version4(kInvertedPendulum));

}  // namespace
}  // namespace torchrl_pool::mujoco
