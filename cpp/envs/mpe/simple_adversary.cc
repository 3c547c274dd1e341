// Good agents know the goal among landmarks; an adversary sees only where they go.
// Reference: mpe2/simple_adversary/simple_adversary.py.
#include <algorithm>

#include "scenario.h"

namespace torchrl_pool::mpe {
namespace {

class SimpleAdversary : public Scenario {
 public:
  struct Options : CommonOptions {
    std::int64_t num_good = 2;
    Neighbors neighbors;

    template <class Visitor>
    void Visit(Visitor& visit) {
      visit("N", num_good, "good agents, and landmarks", {.minimum = 1, .maximum = kMost});
      CommonOptions::Visit(visit);
      neighbors.Visit(visit);
    }
  };

  explicit SimpleAdversary(const Options& options) : Scenario(options, 2), neighbors_(options.neighbors) {
    AddAgents(1, {.name = "adversary", .size = 0.15, .moves = true, .colour = {0.85, 0.35, 0.35}});
    AddAgents(options.num_good, {.name = "agent", .size = 0.15, .moves = true, .colour = {0.35, 0.35, 0.85}});
    AddLandmarks(options.num_good, {.size = 0.08, .colour = {0.15, 0.15, 0.15}});
    goals_.resize(1);
  }
  static Specs MakeSpecs(const Options& options) {
    return SimpleAdversary(options).Describe(
        "where the goal is, for those who know it, and where landmarks and other agents are");
  }

 protected:
  double RewardOf(const Entity& agent) override {
    const double of_adversary = ToGoal(agents()[0]);
    if (IndexOf(agent) == 0) return -of_adversary;
    double least = ToGoal(agents()[1]);
    for (const Entity& good : agents().subspan(1)) least = std::min(least, ToGoal(good));
    return -least + of_adversary;
  }
  void Observe(const Entity& agent, View& view) override {
    if (IndexOf(agent) > 0) view.Add(Goal().position - agent.position);
    AddPositions(agent, landmarks(), view, neighbors_.landmarks);
    AddPositions(agent, agents(), view, neighbors_.agents);
  }
  std::optional<Colour> ColourOf(const Entity& entity) override {
    return &entity == &Goal() ? Colour{0.15, 0.65, 0.15} : entity.colour;
  }

 private:
  double ToGoal(const Entity& agent) { return Distance(agent, Goal()); }

  const Neighbors& neighbors_;
};

const bool registered_adversary =
    Register<SimpleAdversary>({.id = "mpe2/simple_adversary_v3",
                               .description = "reach a goal without showing an adversary which it is"});

}  // namespace
}  // namespace torchrl_pool::mpe
