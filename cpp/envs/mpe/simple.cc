// One agent goes to one landmark. Reference: mpe2/simple/simple.py.
#include "scenario.h"

namespace torchrl_pool::mpe {
namespace {

class Simple : public Scenario {
 public:
  using Options = CommonOptions;

  explicit Simple(const Options& options) : Scenario(options, 0) {
    AddAgents(1, {.name = "agent", .moves = true});
    AddLandmarks(1, {.colour = {0.75, 0.25, 0.25}});
  }
  static Specs MakeSpecs(const Options& options) {
    return Simple(options).Describe("velocity, and where the landmark is");
  }

 protected:
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
