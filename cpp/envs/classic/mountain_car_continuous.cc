// MountainCarContinuous: the mountain car with a continuous force.
// Reference: gymnasium/envs/classic_control/continuous_mountain_car.py.
#include <cmath>

#include "mountain_car.h"
#include "numpy_math.h"
#include "torchrl_pool/env.h"

namespace torchrl_pool::classic {
namespace {

constexpr double kContinuousGoalPosition = 0.45;
constexpr double kPower = 0.0015;

class MountainCarContinuous {
 public:
  using Options = MountainCarOptions;
  using ResetOptions = ResetBounds;

  static Specs MakeSpecs(const Options&) {
    return {CarObservation(), Action("action", Box<float>({1}, -1, 1), "force on the car")};
  }

  explicit MountainCarContinuous(const Options& options) : options_(options) {}

  void Seed(Entropy entropy) { rng_ = Rng(entropy); }

  void Reset(Row& row, const ResetOptions& bounds) {
    position_ = bounds.Draw(rng_);
    velocity_ = 0;
    first_step_ = true;
    Observe(row);
  }

  Outcome Step(Row& row) {
    const float action = row.Action<float>()[0];
    // The reference keeps its state as float64 at reset and as float32 after each step, and NumPy's
    // promotion rules (NEP 50) then make the whole step's arithmetic one or the other.
    const bool terminated = first_step_ ? Advance<double>(action) : Advance<float>(action);
    first_step_ = false;
    Observe(row);
    const double cost = Square(static_cast<double>(action)) * 0.1;
    return {.reward = (terminated ? 100.0 : 0.0) - cost, .terminated = terminated};
  }

  static ImageSize RenderSize(const Options&) { return kMountainCarPicture; }
  void Render(std::uint8_t* rgb) const {
    if (first_step_) {
      DrawMountainCar(rgb, position_, kContinuousGoalPosition);
    } else {
      DrawMountainCar(rgb, static_cast<float>(position_), kContinuousGoalPosition);
    }
  }

  template <class Visitor>
  void VisitState(Visitor& visit) {
    visit(rng_, position_, velocity_, first_step_);
  }

 private:
  template <class Real>
  bool Advance(float action) {
    auto position = static_cast<Real>(position_);
    auto velocity = static_cast<Real>(velocity_);
    const double slope = 0.0025 * std::cos(static_cast<double>(Real{3} * position));
    // Python's min and max keep a float32 within the bounds, and outside give the bound, a Python float.
    const double push = std::abs(action) <= 1
                            ? action * static_cast<float>(kPower) - static_cast<float>(slope)
                            : std::copysign(kPower, static_cast<double>(action)) - slope;
    velocity += static_cast<Real>(push);
    if (velocity > static_cast<Real>(kMaxSpeed)) velocity = static_cast<Real>(kMaxSpeed);
    if (velocity < static_cast<Real>(-kMaxSpeed)) velocity = static_cast<Real>(-kMaxSpeed);
    position += velocity;
    if (position > static_cast<Real>(kMaxPosition)) position = static_cast<Real>(kMaxPosition);
    if (position < static_cast<Real>(kMinPosition)) position = static_cast<Real>(kMinPosition);
    if (position == static_cast<Real>(kMinPosition) && velocity < 0) velocity = 0;
    position_ = static_cast<float>(position);
    velocity_ = static_cast<float>(velocity);
    return position >= static_cast<Real>(kContinuousGoalPosition) &&
           velocity >= static_cast<Real>(options_.goal_velocity);
  }

  void Observe(Row& row) const { ObserveCar(row, position_, velocity_); }

  const Options& options_;
  Rng rng_;
  double position_ = 0, velocity_ = 0;
  bool first_step_ = true;
};

const bool registered =
    Register<MountainCarContinuous>({.id = "MountainCarContinuous-v0",
                                     .description = "drive a weak car up a hill with a continuous force",
                                     .max_episode_steps = 999,
                                     .reward_threshold = 90.0});

}  // namespace
}  // namespace torchrl_pool::classic
