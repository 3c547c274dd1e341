// Each of two agents knows where the other one should go, and tells it.
// Reference: mpe2/simple_reference/simple_reference.py.
#include <array>

#include "scenario.h"

namespace torchrl_pool::mpe {
namespace {

class SimpleReference : public Scenario {
 public:
  struct Options : CommonOptions {
    double local_ratio = 0.5;

    template <class Visitor>
    void Visit(Visitor& visit) {
      visit("local_ratio", local_ratio, "how much of a reward is the agent's own",
            {.minimum = 0, .maximum = 1});
      CommonOptions::Visit(visit);
    }
  };

  explicit SimpleReference(const Options& options) : Scenario(options, 10, options.local_ratio) {
    AddAgents(2, {.name = "agent", .moves = true, .is_silent = false});
    AddLandmarks(kNumLandmarks, {});
  }
  static Specs MakeSpecs(const Options& options) {
    return SimpleReference(options).Describe(
        "velocity, where landmarks are, the colour of the other agent's goal, and its words");
  }
  template <class Visitor>
  void VisitState(Visitor& visit) {
    Scenario::VisitState(visit);
    for (std::size_t& goal : goals_) visit.Bounded(goal, 0, kNumLandmarks - 1);
  }

 protected:
  void Begin(Rng& rng) override {
    for (std::size_t& goal : goals_) goal = static_cast<std::size_t>(rng.Integers(0, kNumLandmarks));
    Scatter(rng, agents());
    Scatter(rng, landmarks());
  }
  double RewardOf(const Entity& agent) override {
    const std::size_t i = IndexOf(agent);
    return -Distance(agents()[1 - i], landmarks()[goals_[i]]);
  }
  double GlobalReward() override { return (RewardOf(agents()[0]) + RewardOf(agents()[1])) / 2; }
  void Observe(const Entity& agent, View& view) override {
    const std::size_t i = IndexOf(agent);
    view.Add(agent.velocity);
    AddPositions(agent, landmarks(), view);
    for (std::size_t k = 0; k < kNumLandmarks; ++k) view.Add(k == goals_[i] ? 0.75 : 0.25);
    AddWords(&agents()[1 - i], view);
  }

 private:
  static constexpr std::size_t kNumLandmarks = 3;

  std::array<std::size_t, 2> goals_{};  // which an agent knows, for the other
};

const bool registered_reference = Register<SimpleReference>(
    {.id = "mpe2/simple_reference_v3", .description = "tell each other where to go"});

}  // namespace
}  // namespace torchrl_pool::mpe
