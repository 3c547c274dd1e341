// What the scenarios have in common: agents in groups, their actions, observations, rewards and flags.
// References: mpe2/_mpe_utils/simple_env.py and partial_observability.py, and TorchRL's PettingZooWrapper,
// which makes groups and entries of agents.
#ifndef TORCHRL_POOL_ENVS_MPE_SCENARIO_H_
#define TORCHRL_POOL_ENVS_MPE_SCENARIO_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "torchrl_pool/env.h"
#include "world.h"

namespace torchrl_pool::mpe {

// As many agents or landmarks as a scenario may be asked for; mpe2 has no limit.
constexpr double kMost = 1000;

struct CommonOptions {
  std::int64_t max_cycles = 25;
  bool continuous_actions = false;
  bool dynamic_rescaling = true;
  std::string group_map = "by_name";

  template <class Visitor>
  void Visit(Visitor& visit) {
    visit("max_cycles", max_cycles, "steps after which an episode is truncated", {.minimum = 1});
    visit("continuous_actions", continuous_actions,
          "numbers from 0 to 1 for each direction and word instead of a choice");
    visit("dynamic_rescaling", dynamic_rescaling, "in pictures, discs grow and shrink as the view does");
    visit("group_map", group_map, "which agents share entries: those of one name, or each has its own",
          {.choices = {"by_name", "one_group_per_agent"}});
  }
};

// How many of the nearest others and landmarks an agent sees; without a number, all of them.
struct Neighbors {
  std::optional<std::int64_t> agents, landmarks;

  template <class Visitor>
  void Visit(Visitor& visit) {
    visit("num_agent_neighbors", agents, "observe only so many of the nearest agents",
          {.minimum = 1, .maximum = kMost});
    visit("num_landmark_neighbors", landmarks, "observe only so many of the nearest landmarks",
          {.minimum = 1, .maximum = kMost});
  }
};

// Where observations are written, one number after another; without a place, they are counted.
class View {
 public:
  explicit View(float* out = nullptr) : out_(out) {}
  std::int64_t size() const { return size_; }

  void Add(double value) {
    if (out_) out_[size_] = static_cast<float>(value);
    ++size_;
  }
  template <std::size_t size>
  void Add(const std::array<double, size>& values) {
    for (const double value : values) Add(value);
  }

 private:
  float* out_;
  std::int64_t size_ = 0;
};

class Scenario {
 public:
  virtual ~Scenario() = default;

  void Seed(Entropy entropy) { rng_ = Rng(entropy); }
  void Reset(Row& row);
  Outcome Step(Row& row);
  static ImageSize RenderSize(const CommonOptions&) { return {700, 700}; }
  void Render(std::uint8_t* rgb);

  template <class Visitor>
  void VisitState(Visitor& visit) {
    visit(rng_);
    visit.Bounded(steps_, 0, common_.max_cycles);
    visit(first_reach_);
    for (Entity& entity : world_.all()) entity.VisitState(visit);
    for (std::size_t& goal : goals_) visit.Bounded(goal, 0, landmarks().size() - 1);
  }

 protected:
  // local_ratio: how much of a reward is the agent's own, where a part is everybody's.
  Scenario(const CommonOptions& common, std::size_t num_words, std::optional<double> local_ratio = {})
      : common_(common), num_words_(num_words), local_ratio_(local_ratio) {}

  // For constructors. Agents are called after their kind: "agent" becomes agent_0, agent_1, …
  void AddAgents(std::int64_t count, const Entity& kind);
  void AddLandmarks(std::int64_t count, const Entity& kind);
  Specs Describe(const std::string& observation);

  // Draws goals and where an episode begins. Everything stands still, and nobody has said anything.
  virtual void Begin(Rng& rng);
  virtual void Observe(const Entity& agent, View& view) = 0;
  virtual double RewardOf(const Entity& agent) = 0;
  virtual double GlobalReward() { return 0; }
  virtual void AfterMoves() {}
  virtual bool IsSolved() { return false; }
  // None: it is not to be seen.
  virtual std::optional<Colour> ColourOf(const Entity& entity) { return entity.colour; }

  static void Scatter(Rng& rng, std::span<Entity> entities) {
    for (Entity& entity : entities) Scatter(rng, entity);
  }
  static void Scatter(Rng& rng, Entity& entity) {
    for (double& x : entity.position) x = rng.Uniform(-entity.scatter, entity.scatter);
  }
  std::span<Entity> agents() { return world_.agents(); }
  std::span<Entity> landmarks() { return world_.landmarks(); }
  std::size_t IndexOf(const Entity& agent) const {
    return static_cast<std::size_t>(&agent - world_.agents().data());
  }
  const Entity& Goal(std::size_t i = 0) { return landmarks()[goals_[i]]; }

  // Entities but the agent itself, the nearest first.
  const std::vector<const Entity*>& ByDistance(const Entity& agent, std::span<const Entity> entities);
  // Calls see(entity) with what the agent sees of them: all, in their order, or the nearest, and null
  // pointers where there are fewer.
  template <class See>
  void ForSeen(const Entity& agent, std::span<const Entity> entities, std::optional<std::int64_t> most,
               const See& see) {
    if (most) {
      const auto& nearest = ByDistance(agent, entities);
      for (std::size_t i = 0; i < static_cast<std::size_t>(*most); ++i) {
        see(i < nearest.size() ? nearest[i] : nullptr);
      }
    } else {
      for (const Entity& entity : entities) {
        if (&entity != &agent) see(&entity);
      }
    }
  }
  void AddPositions(const Entity& agent, std::span<const Entity> entities, View& view,
                    std::optional<std::int64_t> most = {}) {
    ForSeen(agent, entities, most,
            [&](const Entity* entity) { view.Add(entity ? entity->position - agent.position : Point{}); });
  }
  void AddWords(const Entity* agent, View& view) const {
    for (std::size_t i = 0; i < num_words_; ++i) view.Add(agent && !agent->is_silent ? agent->words[i] : 0);
  }

  std::vector<std::size_t> goals_;  // landmarks; a scenario says how many

 private:
  struct Group {
    std::string name;
    std::size_t first, count;  // agents
  };
  // The outputs of each group, in the order of its specs.
  enum Output { kObservation, kReward, kDone, kTerminated, kTruncated, kNumOutputs };

  Space ActionsOf(const Entity& agent) const;
  void Act(Row& row);
  void Write(Row& row, bool terminated, bool truncated);
  double Reach();

  const CommonOptions& common_;
  std::size_t num_words_;
  std::optional<double> local_ratio_;
  World world_;
  std::vector<Group> groups_;
  std::vector<std::pair<double, const Entity*>> distances_;  // of ByDistance
  std::vector<const Entity*> nearest_;
  Rng rng_;
  std::int64_t steps_ = 0;
  double first_reach_ = 1;  // when the episode began
};

}  // namespace torchrl_pool::mpe

#endif  // TORCHRL_POOL_ENVS_MPE_SCENARIO_H_
