// An adversary keeps an agent from its goal. Reference: mpe2/simple_push/simple_push.py.
#include "scenario.h"

namespace torchrl_pool::mpe {
namespace {

class SimplePush : public Scenario {
 public:
  using Options = CommonOptions;

  explicit SimplePush(const Options& options) : Scenario(options, 2) {
    AddAgents(1, {.name = "adversary", .moves = true, .collides = true, .colour = {0.75, 0.25, 0.25}});
    AddAgents(1, {.name = "agent", .moves = true, .collides = true});
    for (std::size_t i = 0; i < 2; ++i) AddLandmarks(1, {.colour = Tinted(0.1, 0.8, i)});
    goals_.resize(1);
  }
  static Specs MakeSpecs(const Options& options) {
    return SimplePush(options).Describe(
        "velocity; the goal and its colour, for the good agent; landmarks, for the good agent also their "
        "colours; the other agent");
  }

 protected:
  double RewardOf(const Entity& agent) override {
    const double of_good = Distance(agents()[1], Goal());
    return IndexOf(agent) == 0 ? of_good - Distance(Goal(), agent) : -of_good;
  }
  void Observe(const Entity& agent, View& view) override {
    const bool is_good = IndexOf(agent) == 1;
    view.Add(agent.velocity);
    if (is_good) {
      view.Add(Goal().position - agent.position);
      view.Add(*ColourOf(agent));
    }
    AddPositions(agent, landmarks(), view);
    for (const Entity& landmark : landmarks()) {
      if (is_good) view.Add(landmark.colour);
    }
    AddPositions(agent, agents(), view);
  }
  std::optional<Colour> ColourOf(const Entity& entity) override {
    return IndexOf(entity) == 1 ? Tinted(0.25, 0.5, goals_[0]) : entity.colour;
  }

 private:
  static Colour Tinted(double grey, double tint, std::size_t landmark) {
    Colour colour{grey, grey, grey};
    colour[landmark + 1] += tint;
    return colour;
  }
};

const bool registered_push =
    Register<SimplePush>({.id = "mpe2/simple_push_v3", .description = "push an agent away from its goal"});

}  // namespace
}  // namespace torchrl_pool::mpe
