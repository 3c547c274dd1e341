// Acrobot: swing the free end of a two-link robot above a height, with torque on the middle joint.
// Sutton (1996); reference: gymnasium/envs/classic_control/acrobot.py.
#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <string>

#include "canvas.h"
#include "numpy_math.h"
#include "reset_bounds.h"
#include "torchrl_pool/env.h"

namespace torchrl_pool::classic {
namespace {

constexpr double kPi = std::numbers::pi;
constexpr double kMaxVelocity1 = 4 * kPi;
constexpr double kMaxVelocity2 = 9 * kPi;
// Both links are alike: length and mass 1, centre of mass in the middle, moment of inertia 1.
constexpr double kCentre = 0.5;
constexpr double kInertia = 1.0;
constexpr double kGravity = 9.8;

using State = std::array<double, 4>;  // two angles, their velocities

class Acrobot {
 public:
  struct Options {
    ResetBounds bounds{-0.1, 0.1};
    double dt = 0.2;
    double torque_noise_max = 0;
    std::string book_or_nips = "book";

    template <class Visitor>
    void Visit(Visitor& visit) {
      bounds.Visit(visit);
      visit("dt", dt, "time step (s; Gymnasium: a class attribute)", {.minimum = 0});
      visit("torque_noise_max", torque_noise_max,
            "largest noise on the torque (Gymnasium: a class attribute)", {.minimum = 0});
      visit("book_or_nips", book_or_nips, "which published equations to use (Gymnasium: a class attribute)",
            {.choices = {"book", "nips"}});
    }
    void Open() {
      bounds.Open();
      use_book = book_or_nips == "book";
    }
    bool use_book = true;
  };

  static Specs MakeSpecs(const Options&) {
    const std::vector<double> high = {1, 1, 1, 1, kMaxVelocity1, kMaxVelocity2};
  using ResetOptions = ResetBounds;
    std::vector<double> low;
    for (const double bound : high) low.push_back(-bound);
    return {Observation("observation", Box<float>({6}, low, high),
                        "cosine and sine of both angles, angular velocities"),
            Action("action", Discrete(3), "torque -1, 0, 1 (N m)")};
  }

  explicit Acrobot(const Options& options) : options_(options) {}

  void Seed(Entropy entropy) { rng_ = Rng(entropy); }

  void Reset(Row& row, const ResetOptions& bounds) {
    for (double& value : state_) value = static_cast<float>(bounds.Draw(rng_));
    is_fresh_ = true;
    // The reference's state is float32 until the first step, and so is this trigonometry.
    const auto angle1 = static_cast<float>(state_[0]);
    const auto angle2 = static_cast<float>(state_[1]);
    float* out = row.Out<float>();
    out[0] = CosFloat32(angle1);
    out[1] = SinFloat32(angle1);
    out[2] = CosFloat32(angle2);
    out[3] = SinFloat32(angle2);
    out[4] = static_cast<float>(state_[2]);
    out[5] = static_cast<float>(state_[3]);
  }

  Outcome Step(Row& row) {
    auto torque = static_cast<double>(row.Action<std::int64_t>()[0] - 1);
    if (options_.torque_noise_max > 0) {
      torque += rng_.Uniform(-options_.torque_noise_max, options_.torque_noise_max);
    }
    Integrate(torque);
    state_[0] = Wrap(state_[0]);
    state_[1] = Wrap(state_[1]);
    state_[2] = std::clamp(state_[2], -kMaxVelocity1, kMaxVelocity1);
    state_[3] = std::clamp(state_[3], -kMaxVelocity2, kMaxVelocity2);

    const double cos1 = std::cos(state_[0]);
    float* out = row.Out<float>();
    out[0] = static_cast<float>(cos1);
    out[1] = static_cast<float>(std::sin(state_[0]));
    out[2] = static_cast<float>(std::cos(state_[1]));
    out[3] = static_cast<float>(std::sin(state_[1]));
    out[4] = static_cast<float>(state_[2]);
    out[5] = static_cast<float>(state_[3]);
    const bool terminated = -cos1 - std::cos(state_[1] + state_[0]) > 1.0;
    return {.reward = terminated ? 0.0 : -1.0, .terminated = terminated};
  }

  static ImageSize RenderSize(const Options&) { return {500, 500}; }

  void Render(std::uint8_t* rgb) const {
    const ImageSize size = RenderSize(options_);
    Canvas canvas(rgb, size);
    const double scale = static_cast<double>(size.width) / 4.4;  // 2.2 links to each side
    const Point base{static_cast<double>(size.width) / 2, static_cast<double>(size.height) / 2};
    canvas.Line({0, base.y + scale}, {static_cast<double>(size.width), base.y + scale}, 1, kBlack);
    const double angle1 = state_[0] - kPi / 2;
    const Point joint{base.x + scale * std::cos(angle1), base.y + scale * std::sin(angle1)};
    canvas.Link(base, angle1, scale, 0.2 * scale, {0, 204, 204});
    canvas.Link(joint, angle1 + state_[1], scale, 0.2 * scale, {0, 204, 204});
    canvas.Circle(base, 0.1 * scale, {204, 204, 0});
    canvas.Circle(joint, 0.1 * scale, {204, 204, 0});
  }

  template <class Visitor>
  void VisitState(Visitor& visit) {
    visit(rng_, state_);
  }

 private:
  static double Wrap(double angle) {
    // Far out the reference's loops never end.
    if (std::abs(angle) > 1e6)
      throw std::runtime_error("the simulation is unstable: an angle left its range");
    while (angle > kPi) angle -= 2 * kPi;
    while (angle < -kPi) angle += 2 * kPi;
    return angle;
  }

  State Derivative(const State& s, double torque) const {
    const auto [theta1, theta2, dtheta1, dtheta2] = s;
    const double cos2 = std::cos(theta2);
    const double sin2 = std::sin(theta2);
    const double d1 =
        kCentre * kCentre + (1.0 + kCentre * kCentre + 2 * kCentre * cos2) + kInertia + kInertia;
    const double d2 = (kCentre * kCentre + kCentre * cos2) + kInertia;
    const double phi2 = kCentre * kGravity * std::cos(theta1 + theta2 - kPi / 2.0);
    const double phi1 = -kCentre * Square(dtheta2) * sin2 - 2 * kCentre * dtheta2 * dtheta1 * sin2 +
                        (kCentre + 1.0) * kGravity * std::cos(theta1 - kPi / 2) + phi2;
    const double inertia = kCentre * kCentre + kInertia - Square(d2) / d1;
    const double coriolis = options_.use_book ? kCentre * Square(dtheta1) * sin2 : 0.0;
    const double ddtheta2 = (torque + d2 / d1 * phi1 - coriolis - phi2) / inertia;
    const double ddtheta1 = -(d2 * ddtheta2 + phi1) / d1;
    return {dtheta1, dtheta2, ddtheta1, ddtheta2};
  }

  // One step of the fourth-order Runge-Kutta method.
  void Integrate(double torque) {
    const double dt = options_.dt;
    const auto shifted = [this](double step, const State& slope) {
      State s;
      for (std::size_t i = 0; i < s.size(); ++i) s[i] = state_[i] + step * slope[i];
      return s;
    };
    const State k1 = Derivative(state_, torque);
    const State k2 = Derivative(shifted(dt / 2, k1), torque);
    const State k3 = Derivative(shifted(dt / 2, k2), torque);
    const State k4 = Derivative(shifted(dt, k3), torque);
    for (std::size_t i = 0; i < state_.size(); ++i) {
      state_[i] += dt / 6 * (k1[i] + 2 * k2[i] + 2 * k3[i] + k4[i]);
    }
  }

  const Options& options_;
  Rng rng_;
  State state_{};
};

const bool registered = Register<Acrobot>({.id = "Acrobot-v1",
                                           .description = "swing a two-link robot above a height",
                                           .max_episode_steps = 500,
                                           .reward_threshold = -100.0});

}  // namespace
}  // namespace torchrl_pool::classic
