// Collectors bring treasures of several kinds to the deposits for them.
// Reference: mpe2/collect_treasure/collect_treasure.py.
#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <vector>

#include "numpy_blas.h"
#include "scenario.h"

namespace torchrl_pool::mpe {
namespace {

constexpr Colour kKinds[] = {{0.212, 0.408, 0.776}, {0.945, 0.553, 0.000}, {0.169, 0.627, 0.173},
                             {0.839, 0.149, 0.157}, {0.580, 0.404, 0.741}, {0.549, 0.337, 0.294}};
constexpr std::int64_t kNothing = -1;

class CollectTreasure : public Scenario {
 public:
  struct Options : CommonOptions {
    std::int64_t num_collectors = 6, num_deposits = 2, num_treasures = 6;

    template <class Visitor>
    void Visit(Visitor& visit) {
      visit("num_collectors", num_collectors, "agents that collect", {.minimum = 1, .maximum = kMost});
      visit("num_deposits", num_deposits, "agents that are deposits, each for one kind of treasure",
            {.minimum = 1, .maximum = std::size(kKinds)});
      visit("num_treasures", num_treasures, "treasures", {.minimum = 1, .maximum = kMost});
      CommonOptions::Visit(visit);
    }
  };

  explicit CollectTreasure(const Options& options)
      : Scenario(options, 2),
        num_kinds_(options.num_deposits),
        held_(static_cast<std::size_t>(options.num_collectors), kNothing),
        treasures_(static_cast<std::size_t>(options.num_treasures)) {
    AddAgents(options.num_collectors,
              {.name = "collector", .acceleration = 1.5, .max_speed = 1, .moves = true});
    AddAgents(
        options.num_deposits,
        {.name = "deposit", .size = 0.075, .mass = 2.25, .acceleration = 1.5, .max_speed = 1, .moves = true});
    AddLandmarks(options.num_treasures, {.size = 0.025, .scatter = 0.95});
  }
  static Specs MakeSpecs(const Options& options) {
    return CollectTreasure(options).Describe(
        "position, velocity, and what a collector holds, one number for each kind; of each other agent, the "
        "nearest first: position, velocity, what it takes and what it holds; of each treasure, the nearest "
        "first: position and kind");
  }
  template <class Visitor>
  void VisitState(Visitor& visit) {
    Scenario::VisitState(visit);
    visit(respawns_);
    for (std::int64_t& kind : held_) visit.Bounded(kind, kNothing, num_kinds_ - 1);
    for (Treasure& treasure : treasures_) {
      visit(treasure.is_there);
      visit.Bounded(treasure.kind, 0, num_kinds_ - 1);
    }
  }

 protected:
  void Begin(Rng& rng) override {
    respawns_ = rng;  // mpe2 draws during an episode from a copy, too
    Scatter(rng, agents());
    std::fill(held_.begin(), held_.end(), kNothing);
    for (std::size_t i = 0; i < treasures_.size(); ++i) {
      treasures_[i] = {.is_there = true, .kind = rng.Integers(0, num_kinds_)};
      Scatter(rng, landmarks()[i]);
    }
  }

  // Treasures are picked up or come back, then some are delivered.
  void AfterMoves() override {
    shared_reward_ = 0;
    for (std::size_t i = 0; i < treasures_.size(); ++i) {
      Treasure& treasure = treasures_[i];
      Entity& place = landmarks()[i];
      if (!treasure.is_there) {
        respawns_.Random();  // whether it comes back, which is certain
        Scatter(respawns_, place);
        treasure = {.is_there = true, .kind = respawns_.Integers(0, num_kinds_)};
        continue;
      }
      for (std::size_t c = 0; c < held_.size(); ++c) {
        if (held_[c] == kNothing && Touch(place, agents()[c])) {
          shared_reward_ += 5;
          treasure.is_there = false;
          held_[c] = treasure.kind;
          place.position = {-999, -999};
          break;
        }
      }
    }
    for (std::size_t c = 0; c < held_.size(); ++c) {
      if (held_[c] != kNothing && Touch(agents()[c], DepositFor(held_[c]))) {
        shared_reward_ += 5;
        held_[c] = kNothing;
      }
    }
  }

  double RewardOf(const Entity& agent) override {
    return (IndexOf(agent) < held_.size() ? OfCollector(agent) : OfDeposit(agent)) + shared_reward_;
  }

  void Observe(const Entity& agent, View& view) override {
    view.Add(agent.position);
    view.Add(agent.velocity);
    if (IndexOf(agent) < held_.size()) AddKind(held_[IndexOf(agent)], view);
    for (const Entity* other : ByDistance(agent, agents())) {
      const std::size_t index = IndexOf(*other);
      const bool collects = index < held_.size();
      view.Add(other->position - agent.position);
      view.Add(other->velocity);
      AddKind(collects ? kNothing : static_cast<std::int64_t>(index - held_.size()), view);
      AddKind(collects ? held_[index] : kNothing, view);
    }
    std::size_t seen = 0;
    for (const Entity* place : ByDistance(agent, landmarks())) {
      const Treasure& treasure = treasures_[static_cast<std::size_t>(place - landmarks().data())];
      if (!treasure.is_there) continue;
      view.Add(place->position - agent.position);
      AddKind(treasure.kind, view);
      ++seen;
    }
    for (; seen < treasures_.size(); ++seen) {
      view.Add(Point{});
      AddKind(kNothing, view);
    }
  }
  std::optional<Colour> ColourOf(const Entity& entity) override {
    const std::size_t i = IndexOf(entity);
    if (i >= agents().size()) {
      const Treasure& treasure = treasures_[i - agents().size()];
      return treasure.is_there ? std::optional(Tinted(treasure.kind, 1)) : std::nullopt;
    }
    if (i >= held_.size()) return Tinted(static_cast<std::int64_t>(i - held_.size()), 0.35);
    return held_[i] == kNothing ? Colour{0.85, 0.85, 0.85} : Tinted(held_[i], 0.85);
  }

 private:
  struct Treasure {
    bool is_there = true;
    std::int64_t kind = 0;
  };

  static Colour Tinted(std::int64_t kind, double tint) {
    Colour colour = kKinds[kind];
    for (double& channel : colour) channel *= tint;
    return colour;
  }
  std::span<Entity> collectors() { return agents().first(held_.size()); }
  const Entity& DepositFor(std::int64_t kind) {
    return agents()[held_.size() + static_cast<std::size_t>(kind)];
  }
  void AddKind(std::int64_t kind, View& view) const {
    for (std::int64_t k = 0; k < num_kinds_; ++k) view.Add(k == kind ? 1 : 0);
  }

  double OfCollector(const Entity& agent) {
    double reward = 0;
    for (const Entity& other : collectors()) reward -= &other != &agent && Touch(agent, other) ? 5 : 0;
    const std::int64_t held = held_[IndexOf(agent)];
    if (held != kNothing) return reward - 0.1 * Distance(DepositFor(held), agent);
    double least = std::numeric_limits<double>::infinity();
    for (std::size_t i = 0; i < treasures_.size(); ++i) {
      if (treasures_[i].is_there) least = std::min(least, Distance(landmarks()[i], agent));
    }
    return std::isfinite(least) ? reward - 0.1 * least : reward;
  }
  // Near to the nearest who brings something, or else to the middle of the collectors.
  double OfDeposit(const Entity& agent) {
    const auto kind = static_cast<std::int64_t>(IndexOf(agent) - held_.size());
    double least = std::numeric_limits<double>::infinity();
    Point middle{};
    for (std::size_t c = 0; c < held_.size(); ++c) {
      const Entity& collector = agents()[c];
      if (held_[c] == kind) least = std::min(least, Distance(collector, agent));
      for (std::size_t k = 0; k < 2; ++k) middle[k] += collector.position[k];
    }
    if (std::isfinite(least)) return 0 - 0.1 * least;
    for (double& x : middle) x /= static_cast<double>(held_.size());
    return 0 - 0.1 * Norm(middle - agent.position);
  }

  std::int64_t num_kinds_;
  std::vector<std::int64_t> held_;  // by each collector
  std::vector<Treasure> treasures_;
  Rng respawns_;
  double shared_reward_ = 0;
};

const bool registered_collect_treasure = Register<CollectTreasure>(
    {.id = "mpe2/collect_treasure_v1", .description = "bring treasures to the deposits for them"});

}  // namespace
}  // namespace torchrl_pool::mpe
