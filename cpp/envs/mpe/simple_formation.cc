// Agents make a circle around a landmark. Reference: mpe2/simple_formation/simple_formation.py.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "formation.h"

namespace torchrl_pool::mpe {
namespace {

constexpr double kTurn = 2 * std::numbers::pi;
constexpr double kRadius = 0.5;

class SimpleFormation : public Formation {
 public:
  explicit SimpleFormation(const Options& options)
      : Formation(options, 0.05, {.size = 0.03, .scatter = 0.5}, 1) {}
  static Specs MakeSpecs(const Options& options) { return SimpleFormation(options).DescribeAll(); }

 protected:
  const std::vector<Point>& Places() override {
    const Point centre = landmarks()[0].position;
    double first = AngleOf(agents()[0].position - centre);
    for (const Entity& agent : agents()) first = std::min(first, AngleOf(agent.position - centre));
    places_.clear();
    const double part = kTurn / static_cast<double>(agents().size());
    for (std::size_t i = 0; i < agents().size(); ++i) {
      const double angle = first + static_cast<double>(i) * part;
      places_.push_back({centre[0] + kRadius * std::cos(angle), centre[1] + kRadius * std::sin(angle)});
    }
    return places_;
  }

 private:
  static double AngleOf(const Point& direction) {
    const double angle = std::atan2(direction[1], direction[0]);
    return angle < 0 ? angle + kTurn : angle;
  }

  std::vector<Point> places_;
};

const bool registered_formation = Register<SimpleFormation>(
    {.id = "mpe2/simple_formation_v1", .description = "make a circle around a landmark"});

}  // namespace
}  // namespace torchrl_pool::mpe
