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

using pictures::Canvas;
using pictures::Corners;
using pictures::kBlack;
using pictures::kWhite;
using pictures::Point;
using pictures::RotatedRectangle;

constexpr double kPi = std::numbers::pi;
constexpr double kMaxVelocity1 = 4 * kPi;
constexpr double kMaxVelocity2 = 9 * kPi;
// Both links are alike: length and mass 1, centre of mass in the middle, moment of inertia 1.
constexpr double kCentre = 0.5;
constexpr double kInertia = 1.0;
constexpr double kGravity = 9.8;

constexpr double kOffset = 250;       // of the picture's middle (pixels)
constexpr double kScale = 500 / 4.4;  // of a link: 2.2 of them to each side

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
  using ResetOptions = ResetBounds;

  static Specs MakeSpecs(const Options&) {
    const std::vector<double> high = {1, 1, 1, 1, kMaxVelocity1, kMaxVelocity2};
    std::vector<double> low;
    for (const double bound : high) low.push_back(-bound);
    return {Observation("observation", Box<float>({6}, low, high),
                        "cos of joint 1, sin of joint 1, cos of joint 2, sin of joint 2, "
                        "velocity of joint 1 (rad/s), velocity of joint 2 (rad/s)"),
            Action("action", Discrete(3), "torque -1 N m, no torque, torque +1 N m")};
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
    is_fresh_ = false;
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
    Canvas canvas(rgb, size, kWhite);
    canvas.HorizontalLine(0, size.width - 1, static_cast<std::int64_t>(kScale + kOffset), kBlack);
    const auto link = [&canvas](Point base, double angle) {
      constexpr double kHalfWidth = 0.1 * kScale;
      Corners corners = RotatedRectangle({0, -kHalfWidth}, {kScale, kHalfWidth}, angle);
      for (Point& corner : corners) corner = {corner.x + base.x, corner.y + base.y};
      canvas.Polygon(corners, {0, 204, 204});
      canvas.Circle(base, static_cast<int>(kHalfWidth), {204, 204, 0});
    };
    // In the precision of the reference's state: see Reset.
    const auto links = [&]<class Real>(Real angle1, Real angle2, Real cos, Real sin) {
      const auto right_angle = static_cast<Real>(kPi / 2);
      link({kOffset, kOffset}, static_cast<double>(angle1 - right_angle));
      const auto scale = static_cast<Real>(kScale);
      link({static_cast<double>(sin * scale) + kOffset, static_cast<double>(-cos * scale) + kOffset},
           static_cast<double>(angle1 + angle2 - right_angle));
    };
    if (is_fresh_) {
      const auto angle1 = static_cast<float>(state_[0]), angle2 = static_cast<float>(state_[1]);
      links(angle1, angle2, CosFloat32(angle1), SinFloat32(angle1));
    } else {
      links(state_[0], state_[1], std::cos(state_[0]), std::sin(state_[0]));
    }
    canvas.FlipUpDown();
  }

  template <class Visitor>
  void VisitState(Visitor& visit) {
    visit(rng_, state_, is_fresh_);
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
  bool is_fresh_ = true;  // no step since the reset
};

const bool registered = Register<Acrobot>({.id = "Acrobot-v1",
                                           .description = "swing a two-link robot above a height",
                                           .max_episode_steps = 500,
                                           .reward_threshold = -100.0});

}  // namespace
}  // namespace torchrl_pool::classic
