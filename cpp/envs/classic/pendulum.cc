// Pendulum: swing a pendulum up and keep it there with little torque.
// Reference: gymnasium/envs/classic_control/pendulum.py.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "canvas.h"
#include "numpy_math.h"
#include "torchrl_pool/env.h"

namespace torchrl_pool::classic {
namespace {

using pictures::Canvas;
using pictures::Colour;
using pictures::Corners;
using pictures::kBlack;
using pictures::kWhite;
using pictures::Point;
using pictures::Rotated;
using pictures::RotatedRectangle;

constexpr double kMaxSpeed = 8;
constexpr double kMaxTorque = 2;
constexpr double kTimeStep = 0.05;

// Of all resets of an env, or of one.
struct LargestStart {
  double angle = std::numbers::pi;
  double velocity = 1.0;

  template <class Visitor>
  void Visit(Visitor& visit) {
    visit("x_init", angle, "largest initial angle (rad)", {.minimum = 0});
    visit("y_init", velocity, "largest initial velocity (rad/s)", {.minimum = 0});
  }

  void Open() const {
    if (!std::isfinite(2 * angle) || !std::isfinite(2 * velocity)) {
      throw InvalidArgument("x_init and y_init must be finite");
    }
  }
};

class Pendulum {
 public:
  struct Options {
    double g = 10.0;
    LargestStart start;

    template <class Visitor>
    void Visit(Visitor& visit) {
      visit("g", g, "acceleration of gravity (m/s^2)");
      start.Visit(visit);
    }
    void Open() const { start.Open(); }
  };
  struct ResetOptions : LargestStart {
    explicit ResetOptions(const Options& options) : LargestStart(options.start) {}
  };

  static Specs MakeSpecs(const Options&) {
    return {Observation("observation", Box<float>({3}, {-1, -1, -kMaxSpeed}, {1, 1, kMaxSpeed}),
                        "cos of the angle, sin of the angle, angular velocity (rad/s)"),
            Action("action", Box<float>({1}, -kMaxTorque, kMaxTorque), "torque (N m)")};
  }

  explicit Pendulum(const Options& options) : options_(options) {}

  void Seed(Entropy entropy) { rng_ = Rng(entropy); }

  void Reset(Row& row, const ResetOptions& largest) {
    theta_ = rng_.Uniform(-largest.angle, largest.angle);
    theta_dot_ = rng_.Uniform(-largest.velocity, largest.velocity);
    has_torque_ = false;
    Observe(row);
  }

  Outcome Step(Row& row) {
    // The torque stays float32 and so does each product with it (NEP 50).
    const float torque =
        std::clamp(row.Action<float>()[0], static_cast<float>(-kMaxTorque), static_cast<float>(kMaxTorque));
    const double angle = Modulo(theta_ + std::numbers::pi, 2 * std::numbers::pi) - std::numbers::pi;
    const double cost = Square(angle) + 0.1 * Square(theta_dot_) + 0.001f * Square(torque);
    const double acceleration = 3 * options_.g / 2 * std::sin(theta_) + static_cast<double>(3.0f * torque);
    theta_dot_ = std::clamp(theta_dot_ + acceleration * kTimeStep, -kMaxSpeed, kMaxSpeed);
    theta_ += theta_dot_ * kTimeStep;
    torque_ = torque;
    has_torque_ = true;
    Observe(row);
    return {.reward = -cost};
  }

  static ImageSize RenderSize(const Options&) { return {500, 500}; }

  void Render(std::uint8_t* rgb) const {
    const ImageSize size = RenderSize(options_);
    Canvas canvas(rgb, size, kWhite);
    const double offset = static_cast<double>(size.width / 2), scale = static_cast<double>(size.width) / 4.4;
    const double width = 0.2 * scale, angle = theta_ + std::numbers::pi / 2;
    const int radius = static_cast<int>(width / 2);
    const Colour red{204, 77, 77};
    const auto moved = [offset](Point point) { return Point{point.x + offset, point.y + offset}; };
    Corners rod = RotatedRectangle({0, -width / 2}, {scale, width / 2}, angle);
    for (Point& corner : rod) corner = moved(corner);
    canvas.Polygon(rod, red);
    canvas.Circle({offset, offset}, radius, red);
    canvas.Circle(moved(Rotated({scale, 0}, angle)), radius, red);
    if (has_torque_) DrawTorque(canvas, static_cast<float>(scale));
    canvas.Circle({offset, offset}, static_cast<int>(0.05 * scale), kBlack);
    canvas.FlipUpDown();
  }

  template <class Visitor>
  void VisitState(Visitor& visit) {
    visit(rng_, theta_, theta_dot_, torque_, has_torque_);
  }

 private:
  // An arrow around the pivot, as large as the torque.
  void DrawTorque(Canvas& canvas, float scale) const {
    const auto size = static_cast<std::int64_t>(scale * std::abs(torque_) / 2);
    auto image = pictures::FlippedUpDown(
        pictures::SmoothlyShrunk(pictures::GymnasiumImage("classic_control/assets/clockwise"), size, size));
    if (torque_ > 0) image = pictures::FlippedLeftRight(image);
    canvas.Blit(image, canvas.width() / 2 - size / 2, canvas.height() / 2 - size / 2);
  }

  void Observe(Row& row) const {
    float* out = row.Out<float>();
    out[0] = static_cast<float>(std::cos(theta_));
    out[1] = static_cast<float>(std::sin(theta_));
    out[2] = static_cast<float>(theta_dot_);
  }

  const Options& options_;
  Rng rng_;
  double theta_ = 0, theta_dot_ = 0;
  float torque_ = 0;         // of the last step
  bool has_torque_ = false;  // a step was made since the reset
};

const bool registered = Register<Pendulum>(
    {.id = "Pendulum-v1", .description = "swing a pendulum up and hold it there", .max_episode_steps = 200});

}  // namespace
}  // namespace torchrl_pool::classic
