// Slow predators hunt fast prey around obstacles. Reference: mpe2/simple_tag/simple_tag.py.
#include "chase.h"

namespace torchrl_pool::mpe {
namespace {

// Of prey, in the first stage of a curriculum. mpe2 1.1.1 never leaves it: its stage is a property of a base
// class, whose setter does nothing.
constexpr double kFirstStageSpeed = 0.5;

class SimpleTag : public Chase {
 public:
  struct Options : CommonOptions {
    std::int64_t num_good = 1, num_adversaries = 3, num_obstacles = 2;
    bool curriculum = false;
    bool terminate_on_success = false;
    Neighbors neighbors;

    template <class Visitor>
    void Visit(Visitor& visit) {
      visit("num_good", num_good, "prey", {.minimum = 0, .maximum = kMost});
      visit("num_adversaries", num_adversaries, "predators", {.minimum = 0, .maximum = kMost});
      visit("num_obstacles", num_obstacles, "landmarks in the way", {.minimum = 0, .maximum = kMost});
      CommonOptions::Visit(visit);
      visit("curriculum", curriculum, "prey has half its speed");
      visit("terminate_on_success", terminate_on_success, "terminate where all prey is touched");
      neighbors.Visit(visit);
    }
    void Open() const {
      if (num_good + num_adversaries == 0) throw InvalidArgument("expected prey or predators, got neither");
    }
  };

  explicit SimpleTag(const Options& options) : Chase(options, 2, options.num_adversaries), options_(options) {
    const double factor = options.curriculum ? kFirstStageSpeed : 1;
    AddAgents(options.num_adversaries, {.name = "adversary",
                                        .size = 0.075,
                                        .acceleration = kPredatorAcceleration,
                                        .max_speed = kPredatorSpeed,
                                        .moves = true,
                                        .collides = true,
                                        .colour = {0.85, 0.35, 0.35}});
    AddAgents(options.num_good, {.name = "agent",
                                 .size = 0.05,
                                 .acceleration = kPreyAcceleration * factor,
                                 .max_speed = kPreySpeed * factor,
                                 .moves = true,
                                 .collides = true,
                                 .colour = {0.35, 0.85, 0.35}});
    AddLandmarks(options.num_obstacles, {.size = 0.2, .collides = true, .scatter = 0.9});
  }
  static Specs MakeSpecs(const Options& options) {
    return SimpleTag(options).Describe(
        "velocity, position, where obstacles and other agents are, and velocities of other prey");
  }

 protected:
  double RewardOf(const Entity& agent) override {
    if (!IsPrey(agent)) return 10 * NumCatches();
    double reward = -10 * NumCatches(agent);
    for (const double x : agent.position) reward -= CostAt(x);
    return reward;
  }
  bool IsSolved() override {
    return options_.terminate_on_success &&
           std::ranges::all_of(prey(), [this](const Entity& agent) { return IsCaught(agent); });
  }
  void Observe(const Entity& agent, View& view) override {
    const auto& neighbors = options_.neighbors;
    view.Add(agent.velocity);
    view.Add(agent.position);
    AddPositions(agent, landmarks(), view, neighbors.landmarks);
    AddPositions(agent, agents(), view, neighbors.agents);
    ForSeen(agent, agents(), neighbors.agents, [&](const Entity* other) {
      const bool is_prey = other && IsPrey(*other);
      if (is_prey || neighbors.agents) view.Add(is_prey ? other->velocity : Point{});
    });
  }

 private:
  const Options& options_;
};

const bool registered_tag =
    Register<SimpleTag>({.id = "mpe2/simple_tag_v3", .description = "slow predators hunt fast prey"});

}  // namespace
}  // namespace torchrl_pool::mpe
