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
    AddAgents(1, {.name = "adversary", .size = 0.15, .moves = true});
    AddAgents(options.num_good, {.name = "agent", .size = 0.15, .moves = true});
    AddLandmarks(options.num_good, {});
  }
  static Specs MakeSpecs(const Options& options) {
    return SimpleAdversary(options).Describe(
        "where the goal is, for those who know it, and where landmarks and other agents are");
  }
  template <class Visitor>
  void VisitState(Visitor& visit) {
    Scenario::VisitState(visit);
    visit.Bounded(goal_, 0, landmarks().size() - 1);
  }

 protected:
  void Begin(Rng& rng) override {
    goal_ = static_cast<std::size_t>(rng.Integers(0, static_cast<std::int64_t>(landmarks().size())));
    Scatter(rng, agents());
    Scatter(rng, landmarks());
  }
  double RewardOf(const Entity& agent) override {
    const double of_adversary = ToGoal(agents()[0]);
    if (IndexOf(agent) == 0) return -of_adversary;
    double least = ToGoal(agents()[1]);
    for (const Entity& good : agents().subspan(1)) least = std::min(least, ToGoal(good));
    return -least + of_adversary;
  }
  void Observe(const Entity& agent, View& view) override {
    if (IndexOf(agent) > 0) view.Add(landmarks()[goal_].position - agent.position);
    AddPositions(agent, landmarks(), view, neighbors_.landmarks);
    AddPositions(agent, agents(), view, neighbors_.agents);
  }

 private:
  double ToGoal(const Entity& agent) { return Distance(agent, landmarks()[goal_]); }

  const Neighbors& neighbors_;
  std::size_t goal_ = 0;
};

const bool registered_adversary =
    Register<SimpleAdversary>({.id = "mpe2/simple_adversary_v3",
                               .description = "reach a goal without showing an adversary which it is"});

}  // namespace
}  // namespace torchrl_pool::mpe
