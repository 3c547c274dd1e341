// A hunt with food for the prey, forests that hide who is inside, and a leader who sees all and speaks.
// Reference: mpe2/simple_world_comm/simple_world_comm.py.
#include "chase.h"

namespace torchrl_pool::mpe {
namespace {

class SimpleWorldComm : public Chase {
 public:
  struct Options : CommonOptions {
    std::int64_t num_good = 2, num_adversaries = 4, num_obstacles = 1, num_food = 2, num_forests = 2;

    template <class Visitor>
    void Visit(Visitor& visit) {
      visit("num_good", num_good, "prey", {.minimum = 1, .maximum = kMost});
      visit("num_adversaries", num_adversaries, "predators, the leader included",
            {.minimum = 1, .maximum = kMost});
      visit("num_obstacles", num_obstacles, "landmarks in the way", {.minimum = 0, .maximum = kMost});
      visit("num_food", num_food, "food", {.minimum = 1, .maximum = kMost});
      visit("num_forests", num_forests, "forests", {.minimum = 0, .maximum = kMost});
      CommonOptions::Visit(visit);
    }
  };

  explicit SimpleWorldComm(const Options& options)
      : Chase(options, 4, options.num_adversaries),
        num_food_(static_cast<std::size_t>(options.num_food)),
        num_forests_(static_cast<std::size_t>(options.num_forests)) {
    Entity predator{.name = "leadadversary",
                    .size = 0.075,
                    .acceleration = kPredatorAcceleration,
                    .max_speed = kPredatorSpeed,
                    .moves = true,
                    .collides = true,
                    .is_silent = false,
                    .colour = {0.95 - 0.3, 0.45 - 0.3, 0.45 - 0.3}};
    AddAgents(1, predator);
    predator.name = "adversary";
    predator.is_silent = true;
    predator.colour = {0.95, 0.45, 0.45};
    AddAgents(options.num_adversaries - 1, predator);
    AddAgents(options.num_good, {.name = "agent",
                                 .size = 0.045,
                                 .acceleration = kPreyAcceleration,
                                 .max_speed = kPreySpeed,
                                 .moves = true,
                                 .collides = true,
                                 .colour = {0.45, 0.95, 0.45}});
    AddLandmarks(options.num_obstacles, {.size = 0.2, .collides = true, .scatter = 0.9});
    AddLandmarks(options.num_food, {.size = 0.03, .colour = {0.15, 0.15, 0.65}, .scatter = 0.9});
    AddLandmarks(options.num_forests, {.size = 0.3, .colour = {0.6, 0.9, 0.6}, .scatter = 0.9});
  }
  static Specs MakeSpecs(const Options& options) {
    return SimpleWorldComm(options).Describe(
        "velocity, position, and where obstacles, food, forests and other agents are; of predators: the "
        "prey's "
        "velocities, whether in which forest (1 or -1), and the leader's words; of prey: in which forest, "
        "and "
        "the other prey's velocities");
  }

 protected:
  void Begin(Rng& rng) override {
    Scenario::Begin(rng);
    Scatter(rng, food());  // food and forests a second time, as mpe2
    Scatter(rng, forests());
  }
  double RewardOf(const Entity& agent) override {
    if (!IsPrey(agent)) {
      double reward = 0 - 0.1 * NearestOf(prey(), agent);
      for (int i = NumCatches(); i > 0; --i) reward += 5;  // one by one, for the last bit
      return reward;
    }
    double reward = -5 * NumCatches(agent);
    for (const double x : agent.position) reward -= 2 * CostAt(x);
    for (const Entity& piece : food()) reward += Touch(agent, piece) ? 2 : 0;
    return reward - 0.05 * NearestOf(food(), agent);
  }
  void Observe(const Entity& agent, View& view) override {
    view.Add(agent.velocity);
    view.Add(agent.position);
    AddPositions(agent, landmarks(), view);
    for (const Entity& other : agents()) {
      if (&other != &agent) view.Add(Sees(agent, other) ? other.position - agent.position : Point{});
    }
    if (IsPrey(agent)) AddForests(agent, view);
    for (const Entity& other : prey()) {
      if (&other != &agent) view.Add(Sees(agent, other) ? other.velocity : Point{});
    }
    if (IsPrey(agent)) return;
    AddForests(agent, view);
    AddWords(&agents()[0], view);
  }

 private:
  std::span<Entity> food() { return landmarks().last(num_food_ + num_forests_).first(num_food_); }
  std::span<Entity> forests() { return landmarks().last(num_forests_); }

  static double NearestOf(std::span<const Entity> entities, const Entity& agent) {
    double least = Distance(entities[0], agent);
    for (const Entity& entity : entities) least = std::min(least, Distance(entity, agent));
    return least;
  }
  // The leader sees everybody; others see who is in a forest with them, or outside of all, as they are.
  bool Sees(const Entity& agent, const Entity& other) {
    if (IndexOf(agent) == 0) return true;
    bool in_any = false;
    for (const Entity& forest : forests()) {
      const bool in = Touch(agent, forest), other_in = Touch(other, forest);
      if (in && other_in) return true;
      in_any = in_any || in || other_in;
    }
    return !in_any;
  }
  void AddForests(const Entity& agent, View& view) {
    for (const Entity& forest : forests()) view.Add(Touch(agent, forest) ? 1.0 : -1.0);
  }

  std::size_t num_food_, num_forests_;
};

const bool registered_world_comm = Register<SimpleWorldComm>(
    {.id = "mpe2/simple_world_comm_v3", .description = "a hunt with food, forests and a leader who speaks"});

}  // namespace
}  // namespace torchrl_pool::mpe
