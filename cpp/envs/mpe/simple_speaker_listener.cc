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
    AddLandmarks(kNumLandmarks, {.size = 0.04});
  }
  static Specs MakeSpecs(const Options& options) {
    return SimpleSpeakerListener(options).Describe(
        "speaker: the goal's colour; listener: velocity, where landmarks are, and the speaker's words");
  }
  template <class Visitor>
  void VisitState(Visitor& visit) {
    Scenario::VisitState(visit);
    visit.Bounded(goal_, 0, kNumLandmarks - 1);
  }

 protected:
  void Begin(Rng& rng) override {
    goal_ = static_cast<std::size_t>(rng.Integers(0, kNumLandmarks));
    Scatter(rng, agents());
    Scatter(rng, landmarks());
  }
  double RewardOf(const Entity&) override { return -SquaredDistance(agents()[1], landmarks()[goal_]); }
  void Observe(const Entity& agent, View& view) override {
    if (IndexOf(agent) == 0) {
      for (std::size_t k = 0; k < kNumLandmarks; ++k) view.Add(k == goal_ ? 0.65 : 0.15);
      return;
    }
    view.Add(agent.velocity);
    AddPositions(agent, landmarks(), view);
    AddWords(&agents()[0], view);
  }

 private:
  static constexpr std::size_t kNumLandmarks = 3;

  std::size_t goal_ = 0;
};

const bool registered_speaker_listener = Register<SimpleSpeakerListener>(
    {.id = "mpe2/simple_speaker_listener_v4", .description = "one speaks, the other goes where it is told"});

}  // namespace
}  // namespace torchrl_pool::mpe
