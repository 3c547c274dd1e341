// Pick up one thing of several. Reference: minigrid/envs/fetch.py.
#include "task.h"

namespace torchrl_pool::minigrid {
namespace {

constexpr Type kFetched[] = {kKey, kBall};
const std::vector<std::string> kSayings = {"get a", "go get a", "fetch a", "go fetch a", "you must fetch a"};

class Fetch : public World {
 public:
  Fetch(int size, int things) : World({size, size}, 5 * size * size, true), count_(things) {}

  Outcome Step(int action) override {
    const Outcome outcome = World::Step(action);
    if (carrying_ == kNothing) return outcome;
    const Thing &got = things_[carrying_], &wanted = things_[target_];
    const bool is_right = got.color == wanted.color && got.type == wanted.type;
    return {.reward = is_right ? Reward() : 0, .terminated = true, .truncated = outcome.truncated};
  }

 private:
  void Generate() override {
    ClearRoom();
    std::vector<Id> things;
    while (static_cast<int>(things.size()) < count_) {
      const Type type = Any(kFetched);
      things.push_back(Make(type, AnyColor()));
      Place(things.back());
    }
    PlaceAgent();
    target_ = Any(things);
    mission_ = Any(kSayings) + " " + NameOf(things_[target_]);
  }

  const int count_;
};

const bool registered =
    RegisterKind({.description = "pick up the thing that the mission names",
                  .missions = EachOf("{} {} {}", {kSayings, ColorsByName(), {"key", "ball"}}),
                  .tasks = {{"MiniGrid-Fetch-5x5-N2-v0", New<Fetch>(5, 2)},
                            {"MiniGrid-Fetch-6x6-N2-v0", New<Fetch>(6, 2)},
                            {"MiniGrid-Fetch-8x8-N3-v0", New<Fetch>(8, 3)}}});

}  // namespace
}  // namespace torchrl_pool::minigrid
