// CartPole: balance a pole on a cart that is pushed left or right.
// Barto, Sutton and Anderson (1983); reference: gymnasium/envs/classic_control/cartpole.py.
#include <cmath>
#include <numbers>

#include "canvas.h"
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

constexpr double kCartGravity = 9.8;
constexpr double kMassPole = 0.1;
constexpr double kTotalMass = kMassPole + 1.0;
constexpr double kHalfLength = 0.5;
constexpr double kPoleMassLength = kMassPole * kHalfLength;
constexpr double kPush = 10.0;
constexpr double kCartTimeStep = 0.02;
constexpr double kThetaThreshold = 12 * 2 * std::numbers::pi / 360;
constexpr double kXThreshold = 2.4;

class CartPole {
 public:
  struct Options {
    bool sutton_barto_reward = false;
    ResetBounds bounds{-0.05, 0.05};

    template <class Visitor>
    void Visit(Visitor& visit) {
      visit("sutton_barto_reward", sutton_barto_reward, "0 per step and -1 at the end instead of 1 per step");
      bounds.Visit(visit);
    }
    void Open() const { bounds.Open(); }
  };
  using ResetOptions = ResetBounds;

  static Specs MakeSpecs(const Options&) {
    const double inf = std::numeric_limits<double>::infinity();
    const std::vector<double> high = {2 * kXThreshold, inf, 2 * kThetaThreshold, inf};
    const std::vector<double> low = {-high[0], -inf, -high[2], -inf};
    return {Observation(
                "observation", Box<float>({4}, low, high),
                "cart position (m), cart velocity (m/s), pole angle (rad), pole angular velocity (rad/s)"),
            Action("action", Discrete(2), "push left, push right")};
  }

  explicit CartPole(const Options& options) : options_(options) {}

  void Seed(Entropy entropy) { rng_ = Rng(entropy); }

  void Reset(Row& row, const ResetOptions& bounds) {
    for (double* value : {&x_, &x_dot_, &theta_, &theta_dot_}) *value = bounds.Draw(rng_);
    fallen_ = false;
    Observe(row);
  }

  Outcome Step(Row& row) {
    const double force = row.Action<std::int64_t>()[0] == 1 ? kPush : -kPush;
    const double cos = std::cos(theta_);
    const double sin = std::sin(theta_);
    const double temp = (force + kPoleMassLength * (theta_dot_ * theta_dot_) * sin) / kTotalMass;
    const double theta_acc = (kCartGravity * sin - cos * temp) /
                             (kHalfLength * (4.0 / 3.0 - kMassPole * (cos * cos) / kTotalMass));
    const double x_acc = temp - kPoleMassLength * theta_acc * cos / kTotalMass;
    x_ += kCartTimeStep * x_dot_;
    x_dot_ += kCartTimeStep * x_acc;
    theta_ += kCartTimeStep * theta_dot_;
    theta_dot_ += kCartTimeStep * theta_acc;
    Observe(row);

    const bool terminated =
        x_ < -kXThreshold || x_ > kXThreshold || theta_ < -kThetaThreshold || theta_ > kThetaThreshold;
    double reward;
    if (options_.sutton_barto_reward) {
      reward = terminated ? -1 : 0;
    } else {
      reward = terminated && fallen_ ? 0 : 1;
    }
    fallen_ = fallen_ || terminated;
    return {.reward = reward, .terminated = terminated};
  }

  static ImageSize RenderSize(const Options&) { return {400, 600}; }

  void Render(std::uint8_t* rgb) const {
    const ImageSize size = RenderSize(options_);
    Canvas canvas(rgb, size, kWhite);
    const double scale = static_cast<double>(size.width) / (kXThreshold * 2);
    const double cart_x = x_ * scale + static_cast<double>(size.width) / 2, cart_y = 100, axle = 7.5;
    Corners cart = RotatedRectangle({-25, -15}, {25, 15}, 0);
    for (Point& corner : cart) corner = {corner.x + cart_x, corner.y + cart_y};
    canvas.Polygon(cart, kBlack);
    Corners pole = RotatedRectangle({-5, -5}, {5, scale * (2 * kHalfLength) - 5}, -theta_);
    for (Point& corner : pole) corner = {corner.x + cart_x, corner.y + cart_y + axle};
    canvas.Polygon(pole, {202, 152, 101});
    canvas.Circle({cart_x, cart_y + axle}, 5, {129, 132, 203});
    canvas.HorizontalLine(0, size.width, static_cast<std::int64_t>(cart_y), kBlack);
    canvas.FlipUpDown();
  }

  template <class Visitor>
  void VisitState(Visitor& visit) {
    visit(rng_, x_, x_dot_, theta_, theta_dot_, fallen_);
  }

 private:
  void Observe(Row& row) const {
    float* out = row.Out<float>();
    out[0] = static_cast<float>(x_);
    out[1] = static_cast<float>(x_dot_);
    out[2] = static_cast<float>(theta_);
    out[3] = static_cast<float>(theta_dot_);
  }

  const Options& options_;
  Rng rng_;
  double x_ = 0, x_dot_ = 0, theta_ = 0, theta_dot_ = 0;
  bool fallen_ = false;  // in an earlier step: whoever steps on gets no more reward
};

const bool registered = Register<CartPole>({.id = "CartPole-v0",
                                            .description = "balance a pole on a cart",
                                            .max_episode_steps = 200,
                                            .reward_threshold = 195.0}) &&
                        Register<CartPole>({.id = "CartPole-v1",
                                            .description = "balance a pole on a cart",
                                            .max_episode_steps = 500,
                                            .reward_threshold = 475.0});

}  // namespace
}  // namespace torchrl_pool::classic
