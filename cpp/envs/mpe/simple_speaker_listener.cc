// One who stands still tells one who moves where to go.
// Reference: mpe2/simple_speaker_listener/simple_speaker_listener.py.
#include "scenario.h"

namespace torchrl_pool::mpe {
namespace {

class SimpleSpeakerListener : public Scenario {
 public:
  using Options = CommonOptions;

  explicit SimpleSpeakerListener(const Options& options) : Scenario(options, 3) {
    AddAgents(1, {.name = "speaker", .size = 0.075, .is_silent = false});
    AddAgents(1, {.name = "listener", .size = 0.075, .moves = true});
    AddLandmarks(1, {.size = 0.04, .colour = {0.65, 0.15, 0.15}});
    AddLandmarks(1, {.size = 0.04, .colour = {0.15, 0.65, 0.15}});
    AddLandmarks(1, {.size = 0.04, .colour = {0.15, 0.15, 0.65}});
    goals_.resize(1);
  }
  static Specs MakeSpecs(const Options& options) {
    return SimpleSpeakerListener(options).Describe(
        "speaker: the goal's colour; listener: velocity, where landmarks are, and the speaker's words");
  }

 protected:
  double RewardOf(const Entity&) override { return -SquaredDistance(agents()[1], Goal()); }
  void Observe(const Entity& agent, View& view) override {
    if (IndexOf(agent) == 0) return view.Add(Goal().colour);
    view.Add(agent.velocity);
    AddPositions(agent, landmarks(), view);
    AddWords(&agents()[0], view);
  }
  std::optional<Colour> ColourOf(const Entity& entity) override {
    if (IndexOf(entity) != 1) return entity.colour;
    Colour colour = Goal().colour;
    for (double& channel : colour) channel += 0.45;
    return colour;
  }
};

const bool registered_speaker_listener = Register<SimpleSpeakerListener>(
    {.id = "mpe2/simple_speaker_listener_v4", .description = "one speaks, the other goes where it is told"});

}  // namespace
}  // namespace torchrl_pool::mpe
