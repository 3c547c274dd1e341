// MountainCar: drive a car that is too weak for the slope up the hill, with three actions.
// Moore (1990); reference: gymnasium/envs/classic_control/mountain_car.py.
#include "mountain_car.h"

#include <algorithm>
#include <cmath>

#include "torchrl_pool/env.h"

namespace torchrl_pool::classic {
namespace {

constexpr double kGoalPosition = 0.5;
constexpr double kThrust = 0.001;
constexpr double kSlopeGravity = 0.0025;

class MountainCar {
 public:
  using Options = MountainCarOptions;
  using ResetOptions = ResetBounds;

  static Specs MakeSpecs(const Options&) {
    return {CarObservation(), Action("action", Discrete(3), "accelerate left, coast, accelerate right")};
  }

  explicit MountainCar(const Options& options) : options_(options) {}

  void Seed(Entropy entropy) { rng_ = Rng(entropy); }

  void Reset(Row& row, const ResetOptions& bounds) {
    position_ = bounds.Draw(rng_);
    velocity_ = 0;
    Observe(row);
  }

  Outcome Step(Row& row) {
    const auto push = static_cast<double>(row.Action<std::int64_t>()[0] - 1);
    velocity_ += push * kThrust + std::cos(3 * position_) * -kSlopeGravity;
    velocity_ = std::clamp(velocity_, -kMaxSpeed, kMaxSpeed);
    position_ = std::clamp(position_ + velocity_, kMinPosition, kMaxPosition);
    if (position_ == kMinPosition && velocity_ < 0) velocity_ = 0;
    Observe(row);
    return {.reward = -1, .terminated = position_ >= kGoalPosition && velocity_ >= options_.goal_velocity};
  }

  static ImageSize RenderSize(const Options&) { return kMountainCarPicture; }
  void Render(std::uint8_t* rgb) const { DrawMountainCar(rgb, position_, kGoalPosition); }

  template <class Visitor>
  void VisitState(Visitor& visit) {
    visit(rng_, position_, velocity_);
  }

 private:
  void Observe(Row& row) const { ObserveCar(row, position_, velocity_); }

  const Options& options_;
  Rng rng_;
  double position_ = 0, velocity_ = 0;
};

const bool registered = Register<MountainCar>({.id = "MountainCar-v0",
                                               .description = "drive a weak car up a hill",
                                               .max_episode_steps = 200,
                                               .reward_threshold = -110.0});

}  // namespace
}  // namespace torchrl_pool::classic
