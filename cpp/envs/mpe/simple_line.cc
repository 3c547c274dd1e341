// Agents make a line between two landmarks. Reference: mpe2/simple_line/simple_line.py.
#include <cmath>
#include <numbers>

#include "formation.h"

namespace torchrl_pool::mpe {
namespace {

constexpr double kLength = 1.25;
constexpr double kFiveDegrees = 5 * (std::numbers::pi / 180);

class SimpleLine : public Formation {
 public:
  explicit SimpleLine(const Options& options) : Formation(options, 0.03, {.size = 0.02, .scatter = 0.25}, 2) {
    places_.resize(agents().size());
  }
  static Specs MakeSpecs(const Options& options) { return SimpleLine(options).DescribeAll(); }
  template <class Visitor>
  void VisitState(Visitor& visit) {
    Scenario::VisitState(visit);
    for (Point& place : places_) visit(place);
  }

 protected:
  void Begin(Rng& rng) override {
    Scatter(rng, agents());
    Point& begin = landmarks()[0].position;
    Point& end = landmarks()[1].position;
    Scatter(rng, landmarks()[0]);
    // The line's direction, turned until it ends inside.
    double angle = rng.Uniform(0, 2 * std::numbers::pi);
    Point direction;
    for (;; angle += kFiveDegrees) {
      direction = {std::cos(angle), std::sin(angle)};
      for (std::size_t k = 0; k < 2; ++k) end[k] = begin[k] + kLength * direction[k];
      if (std::abs(end[0]) < 1 && std::abs(end[1]) < 1) break;
    }
    const double part = places_.size() > 1 ? kLength / static_cast<double>(places_.size() - 1) : 0;
    for (std::size_t i = 0; i < places_.size(); ++i) {
      for (std::size_t k = 0; k < 2; ++k)
        places_[i][k] = begin[k] + static_cast<double>(i) * part * direction[k];
    }
  }
  const std::vector<Point>& Places() override { return places_; }

 private:
  std::vector<Point> places_;
};

const bool registered_line =
    Register<SimpleLine>({.id = "mpe2/simple_line_v1", .description = "make a line between two landmarks"});

}  // namespace
}  // namespace torchrl_pool::mpe
