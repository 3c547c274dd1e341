// Put one thing next to another. Reference: minigrid/envs/putnear.py.
#include <algorithm>

#include "task.h"

namespace torchrl_pool::minigrid {
namespace {

const std::vector<std::string> kThingNames = {"key", "ball", "box"};

bool AreNear(Pos a, Pos b) { return std::abs(a.x - b.x) <= 1 && std::abs(a.y - b.y) <= 1; }

class PutNear : public World {
 public:
  PutNear(int size, int things) : World({size, size}, 5 * size, true), count_(things) {}

  Outcome Step(int action) override {
    const Id before = carrying_;
    Outcome outcome = World::Step(action);
    if (action == kPickup && carrying_ != kNothing) {
      const Thing &got = things_[carrying_], &wanted = things_[target_];
      if (got.type != wanted.type || got.color != wanted.color) outcome.terminated = true;
    }
    if (action == kDrop && before != kNothing) {
      if (carrying_ == kNothing && AreNear(Front(), place_)) outcome.reward = Reward();
      outcome.terminated = true;
    }
    return outcome;
  }

 private:
  void Generate() override {
    ClearRoom();
    std::vector<Id> things;
    const auto is_near_one = [&](Pos p) {
      return std::any_of(things.begin(), things.end(), [&](Id id) { return AreNear(things_[id].at, p); });
    };
    while (static_cast<int>(things.size()) < count_) {
      const Id id = MakeUnlike(things);  // it is nowhere yet, and near nothing
      if (id != kNothing) PlaceUnless(is_near_one, id, {0, 0}, size_, kManyTries);
    }
    PlaceAgent();
    target_ = Any(things);
    Id other;
    do {
      other = Any(things);
    } while (other == target_);
    place_ = things_[other].at;
    mission_ = "put the " + NameOf(things_[target_]) + " near the " + NameOf(things_[other]);
  }

  const int count_;
};

const bool registered =
    RegisterKind({.description = "put one thing next to another",
                  .missions = EachOf("put the {} {} near the {} {}",
                                     {ColorsByName(), kThingNames, ColorsByName(), kThingNames}),
                  .tasks = {{"MiniGrid-PutNear-6x6-N2-v0", New<PutNear>(6, 2)},
                            {"MiniGrid-PutNear-8x8-N3-v0", New<PutNear>(8, 3)}}});

}  // namespace
}  // namespace torchrl_pool::minigrid
