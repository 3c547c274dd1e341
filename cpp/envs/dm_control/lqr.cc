// LQR: bring masses that springs connect to rest. Reference: dm_control/suite/lqr.py.
#include "suite.h"

namespace torchrl_pool::dm_control {
namespace {

class Lqr {
 public:
  Lqr(const mjModel&, const std::string&) {}

  void Prepare(Physics& physics) const {
    const std::int64_t count = physics.model().njnt;
    physics.Own(&mjModel::jnt_stiffness, count, {{0, count}});
  }
  // As suite.load(…, {"random": seed}) draws it.
  void Load(Physics& physics, LegacyRng random) const {
    for (int joint = 0; joint < physics.model().njnt; ++joint) {
      physics.own().jnt_stiffness[joint] = random.Uniform(15, 25);
      random.Uniform(0, 0);  // the damping
    }
  }

  void Initialize(Physics& physics, LegacyRng& random) const {
    const int count = static_cast<int>(physics.model().nq);
    double* qpos = physics.data().qpos;
    for (int i = 0; i < count; ++i) qpos[i] = random.StandardNormal();
    const double norm = Norm(qpos, count);
    for (int i = 0; i < count; ++i) qpos[i] = std::sqrt(2.0) * qpos[i] / norm;
  }

  void Observe(const Physics& physics, Observer& observe) const {
    const mjModel& model = physics.model();
    observe("position", model.nq).Add(physics.data().qpos, model.nq);
    observe("velocity", model.nv).Add(physics.data().qvel, model.nv);
  }

  double Reward(const Physics& physics) const {
    const auto half_square = [](const double* values, mjtSize count) {
      return 0.5 * Dot(values, values, static_cast<int>(count));
    };
    const double state_cost = half_square(physics.data().qpos, physics.model().nq);
    const double control_cost = half_square(physics.data().ctrl, physics.model().nu) * 0.1;
    return 1 - (state_cost + control_cost);
  }

  bool Terminates(const Physics& physics) const {
    const mjModel& model = physics.model();
    std::vector<double> state(physics.data().qpos, physics.data().qpos + model.nq);
    state.insert(state.end(), physics.data().qvel, physics.data().qvel + model.nv);
    return Norm(state.data(), static_cast<int>(state.size())) < 1e-6;
  }
};

const bool registered = RegisterTasks<Lqr>("lqr",
                                           {{"lqr_2_1", "bring two masses to rest, moving the first"},
                                            {"lqr_6_2", "bring six masses to rest, moving two"}},
                                           0);

}  // namespace
}  // namespace torchrl_pool::dm_control
