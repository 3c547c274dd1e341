// Agents cover landmarks without running into each other. Reference: mpe2/simple_spread/simple_spread.py.
#include <algorithm>

#include "scenario.h"

namespace torchrl_pool::mpe {
namespace {

constexpr double kCoverRadius = 0.1;

class SimpleSpread : public Scenario {
 public:
  struct Options : CommonOptions {
    std::int64_t num_agents = 3;
    double local_ratio = 0.5;
    bool curriculum = false;
    bool terminate_on_success = false;
    Neighbors neighbors;

    template <class Visitor>
    void Visit(Visitor& visit) {
      visit("N", num_agents, "agents, and landmarks", {.minimum = 1, .maximum = kMost});
      visit("local_ratio", local_ratio, "how much of a reward is the agent's own",
            {.minimum = 0, .maximum = 1});
      CommonOptions::Visit(visit);
      visit("curriculum", curriculum, "collisions cost nothing");
      visit("terminate_on_success", terminate_on_success, "terminate where all landmarks are covered");
      neighbors.Visit(visit);
    }
  };

  explicit SimpleSpread(const Options& options)
      : Scenario(options, 2, options.local_ratio), options_(options) {
    AddAgents(options.num_agents,
              {.name = "agent", .size = 0.15, .moves = true, .collides = true, .colour = {0.35, 0.35, 0.85}});
    AddLandmarks(options.num_agents, {});
  }
  static Specs MakeSpecs(const Options& options) {
    return SimpleSpread(options).Describe(
        "velocity, position, and where landmarks and other agents are; then their words, which are 0");
  }

 protected:
  double RewardOf(const Entity& agent) override {
    double reward = 0;
    if (options_.curriculum) return reward;  // in its first stage, which mpe2 1.1.1 never leaves
    for (const Entity& other : agents()) reward -= &other != &agent && Touch(other, agent);
    return reward;
  }
  double GlobalReward() override {
    double reward = 0;
    for (const Entity& landmark : landmarks()) reward -= NearestTo(landmark);
    return reward;
  }
  bool IsSolved() override {
    return options_.terminate_on_success && std::ranges::all_of(landmarks(), [this](const Entity& landmark) {
             return NearestTo(landmark) < kCoverRadius;
           });
  }
  void Observe(const Entity& agent, View& view) override {
    view.Add(agent.velocity);
    view.Add(agent.position);
    AddPositions(agent, landmarks(), view, options_.neighbors.landmarks);
    AddPositions(agent, agents(), view, options_.neighbors.agents);
    ForSeen(agent, agents(), options_.neighbors.agents, [&](const Entity* other) { AddWords(other, view); });
  }

 private:
  double NearestTo(const Entity& landmark) {
    double least = Distance(agents()[0], landmark);
    for (const Entity& agent : agents()) least = std::min(least, Distance(agent, landmark));
    return least;
  }

  const Options& options_;
};

const bool registered_spread = Register<SimpleSpread>(
    {.id = "mpe2/simple_spread_v3", .description = "agents cover landmarks without running into each other"});

}  // namespace
}  // namespace torchrl_pool::mpe
