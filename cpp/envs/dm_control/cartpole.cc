// Cart-pole: balance poles on a cart. Reference: dm_control/suite/cartpole.py.
#include "suite.h"

namespace torchrl_pool::dm_control {
namespace {

class CartPole {
 public:
  CartPole(const mjModel& model, const std::string& task)
      : num_poles_(static_cast<int>(model.nbody) - 2),
        begins_upright_(task.starts_with("balance")),
        is_sparse_(task.ends_with("sparse")) {}

  void Initialize(Physics& physics, LegacyRng& random) const {
    double* qpos = physics.data().qpos;
    if (begins_upright_) {
      qpos[0] = random.Uniform(-0.1, 0.1);
      for (int i = 1; i <= num_poles_; ++i) qpos[i] = random.Uniform(-0.034, 0.034);
    } else {
      qpos[0] = 0.01 * random.StandardNormal();
      qpos[1] = kPi + 0.01 * random.StandardNormal();
      for (int i = 2; i <= num_poles_; ++i) qpos[i] = 0.1 * random.StandardNormal();
    }
    for (int i = 0; i <= num_poles_; ++i) physics.data().qvel[i] = 0.01 * random.StandardNormal();
  }

  void Observe(const Physics& physics, Observer& observe) const {
    Writer position = observe("position", 1 + 2 * num_poles_);
    position.Add(physics.data().qpos[0]);
    for (int i = 0; i < num_poles_; ++i) position.Add(Cosine(physics, i)).Add(Pole(physics, i)[2]);
    observe("velocity", 1 + num_poles_).Add(physics.data().qvel, 1 + num_poles_);
  }

  double Reward(const Physics& physics) const {
    const double x = physics.data().qpos[0];
    if (is_sparse_) {
      double upright = 1;
      for (int i = 0; i < num_poles_; ++i) upright *= Within(Cosine(physics, i), {0.995, 1});
      return Within(x, {-0.25, 0.25}) * upright;
    }
    const auto upright_of = [&](std::size_t i) { return (Cosine(physics, static_cast<int>(i)) + 1) / 2; };
    const double upright =
        PairwiseSum<double>(0, static_cast<std::size_t>(num_poles_), upright_of) / num_poles_;
    double slow = 1;
    for (int i = 1; i <= num_poles_; ++i) {
      slow = std::min(slow, GaussianOfElement(physics.data().qvel[i], {}, 5));
    }
    const double centered = (1 + Gaussian(x, {}, 2)) / 2;
    const double small_control = (4 + SmallControl(physics.data().ctrl[0])) / 5;
    return upright * small_control * ((1 + slow) / 2) * centered;
  }

 private:
  static const double* Pole(const Physics& physics, int i) { return physics.body_frame(2 + i); }
  static double Cosine(const Physics& physics, int i) { return Pole(physics, i)[8]; }

  const int num_poles_;
  const bool begins_upright_, is_sparse_;
};

const bool registered =
    RegisterTasks<CartPole>("cartpole", {{"balance", "keep a pole upright on a cart"},
                                         {"balance_sparse", "rewarded while upright in the middle only"},
                                         {"swingup", "swing up a pole on a cart"},
                                         {"swingup_sparse", "rewarded while upright in the middle only"},
                                         {"two_poles", "swing up two poles, one on the other"},
                                         {"three_poles", "swing up three poles, one on the other"}});

}  // namespace
}  // namespace torchrl_pool::dm_control
