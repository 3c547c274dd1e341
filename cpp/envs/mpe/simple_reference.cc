// Each of two agents knows where the other one should go, and tells it.
// Reference: mpe2/simple_reference/simple_reference.py.
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
    AddLandmarks(1, {.colour = {0.75, 0.25, 0.25}});
    AddLandmarks(1, {.colour = {0.25, 0.75, 0.25}});
    AddLandmarks(1, {.colour = {0.25, 0.25, 0.75}});
    goals_.resize(2);  // which an agent knows, for the other
  }
  static Specs MakeSpecs(const Options& options) {
    return SimpleReference(options).Describe(
        "velocity, where landmarks are, the colour of the other agent's goal, and its words");
  }

 protected:
  double RewardOf(const Entity& agent) override {
    const std::size_t i = IndexOf(agent);
    return -Distance(agents()[1 - i], Goal(i));
  }
  double GlobalReward() override { return (RewardOf(agents()[0]) + RewardOf(agents()[1])) / 2; }
  void Observe(const Entity& agent, View& view) override {
    const std::size_t i = IndexOf(agent);
    view.Add(agent.velocity);
    AddPositions(agent, landmarks(), view);
    view.Add(Goal(i).colour);
    AddWords(&agents()[1 - i], view);
  }
  std::optional<Colour> ColourOf(const Entity& entity) override {
    return IndexOf(entity) < 2 ? Goal(1 - IndexOf(entity)).colour : entity.colour;
  }
};

const bool registered_reference = Register<SimpleReference>(
    {.id = "mpe2/simple_reference_v3", .description = "tell each other where to go"});

}  // namespace
}  // namespace torchrl_pool::mpe
