// Slow predators hunt fast prey around obstacles. Reference: mpe2/simple_tag/simple_tag.py.
#include <array>

#include "chase.h"

namespace torchrl_pool::mpe {
namespace {

constexpr std::array<double, 3> kSpeedAtStage = {0.5, 0.75, 1.0};
constexpr std::int64_t kLastStage = kSpeedAtStage.size() - 1;

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
      visit("curriculum", curriculum, "prey has half its speed in stage 0, three quarters in stage 1");
      visit("terminate_on_success", terminate_on_success, "terminate where all prey is touched");
      neighbors.Visit(visit);
    }
    void Open() const {
      if (num_good + num_adversaries == 0) throw InvalidArgument("expected prey or predators, got neither");
    }
  };
  struct ResetOptions {
    std::optional<std::int64_t> stage;
    template <class Visitor>
    void Visit(Visitor& visit) {
      visit("curriculum_stage", stage, "from here on", {.minimum = 0, .maximum = kLastStage});
    }
  };

  explicit SimpleTag(const Options& options) : Chase(options, 2, options.num_adversaries), options_(options) {
    AddAgents(options.num_adversaries, {.name = "adversary",
                                        .size = 0.075,
                                        .acceleration = kPredatorAcceleration,
                                        .max_speed = kPredatorSpeed,
                                        .moves = true,
                                        .collides = true});
    AddAgents(options.num_good, {.name = "agent",
                                 .size = 0.05,
                                 .acceleration = kPreyAcceleration,
                                 .max_speed = kPreySpeed,
                                 .moves = true,
                                 .collides = true});
    AddLandmarks(options.num_obstacles, {.size = 0.2, .collides = true});
    SlowDown();
  }
  static Specs MakeSpecs(const Options& options) {
    return SimpleTag(options).Describe(
        "velocity, position, where obstacles and other agents are, and velocities of other prey");
  }
  void Reset(Row& row, const ResetOptions& reset) {
    stage_ = reset.stage.value_or(stage_);
    Scenario::Reset(row);
  }
  template <class Visitor>
  void VisitState(Visitor& visit) {
    Scenario::VisitState(visit);
    visit.Bounded(stage_, 0, kLastStage);
    if (Visitor::kReading) SlowDown();
  }

 protected:
  void Begin(Rng& rng) override {
    Scatter(rng, agents());
    Scatter(rng, landmarks(), 0.9);
    SlowDown();
  }
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
  void SlowDown() {
    const double factor = options_.curriculum ? kSpeedAtStage[static_cast<std::size_t>(stage_)] : 1;
    for (Entity& agent : prey()) {
      agent.max_speed = kPreySpeed * factor;
      agent.acceleration = kPreyAcceleration * factor;
    }
  }

  const Options& options_;
  std::int64_t stage_ = 0;
};

const bool registered_tag =
    Register<SimpleTag>({.id = "mpe2/simple_tag_v3", .description = "slow predators hunt fast prey"});

}  // namespace
}  // namespace torchrl_pool::mpe
