// An adversary keeps an agent from its goal. Reference: mpe2/simple_push/simple_push.py.
#include <array>

#include "scenario.h"

namespace torchrl_pool::mpe {
namespace {

using Colour = std::array<double, 3>;

class SimplePush : public Scenario {
 public:
  using Options = CommonOptions;

  explicit SimplePush(const Options& options) : Scenario(options, 2) {
    for (const char* name : {"adversary", "agent"})
      AddAgents(1, {.name = name, .moves = true, .collides = true});
    AddLandmarks(kNumLandmarks, {});
  }
  static Specs MakeSpecs(const Options& options) {
    return SimplePush(options).Describe(
        "velocity; the goal and its colour, for the good agent; landmarks, for the good agent also their "
        "colours; the other agent");
  }
  template <class Visitor>
  void VisitState(Visitor& visit) {
    Scenario::VisitState(visit);
    visit.Bounded(goal_, 0, kNumLandmarks - 1);
  }

 protected:
  void Begin(Rng& rng) override {
    goal_ = static_cast<std::size_t>(rng.Integers(0, kNumLandmarks));
    Scatter(rng, agents());
    Scatter(rng, landmarks());
  }
  double RewardOf(const Entity& agent) override {
    const double of_good = Distance(agents()[1], landmarks()[goal_]);
    return IndexOf(agent) == 0 ? of_good - Distance(landmarks()[goal_], agent) : -of_good;
  }
  void Observe(const Entity& agent, View& view) override {
    const bool is_good = IndexOf(agent) == 1;
    view.Add(agent.velocity);
    if (is_good) {
      view.Add(landmarks()[goal_].position - agent.position);
      view.Add(Tinted(0.25, 0.5, goal_));
    }
    AddPositions(agent, landmarks(), view);
    for (std::size_t i = 0; is_good && i < kNumLandmarks; ++i) view.Add(Tinted(0.1, 0.8, i));
    AddPositions(agent, agents(), view);
  }

 private:
  static constexpr std::size_t kNumLandmarks = 2;

  static Colour Tinted(double grey, double tint, std::size_t landmark) {
    Colour colour{grey, grey, grey};
    colour[landmark + 1] += tint;
    return colour;
  }

  std::size_t goal_ = 0;
};

const bool registered_push =
    Register<SimplePush>({.id = "mpe2/simple_push_v3", .description = "push an agent away from its goal"});

}  // namespace
}  // namespace torchrl_pool::mpe
