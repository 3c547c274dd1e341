// One agent goes to one landmark. Reference: mpe2/simple/simple.py.
#include "scenario.h"

namespace torchrl_pool::mpe {
namespace {

class Simple : public Scenario {
 public:
  using Options = CommonOptions;

  explicit Simple(const Options& options) : Scenario(options, 0) {
    AddAgents(1, {.name = "agent", .moves = true});
    AddLandmarks(1, {});
  }
  static Specs MakeSpecs(const Options& options) {
    return Simple(options).Describe("velocity, and where the landmark is");
  }

 protected:
  void Begin(Rng& rng) override {
    Scatter(rng, agents());
    Scatter(rng, landmarks());
  }
  double RewardOf(const Entity& agent) override { return -SquaredDistance(agent, landmarks()[0]); }
  void Observe(const Entity& agent, View& view) override {
    view.Add(agent.velocity);
    AddPositions(agent, landmarks(), view);
  }
};

const bool registered_simple =
    Register<Simple>({.id = "mpe2/simple_v3", .description = "one agent goes to a landmark"});

}  // namespace
}  // namespace torchrl_pool::mpe
