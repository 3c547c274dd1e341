// Go to a door or to a thing, and say so (done). Reference: minigrid/envs/gotodoor.py, gotoobject.py.
#include <algorithm>

#include "task.h"

namespace torchrl_pool::minigrid {
namespace {

class GoTo : public World {
 public:
  GoTo(int size, int max_steps) : World({size, size}, max_steps, true) {}

  Outcome Step(int action) override {
    Outcome outcome = World::Step(action);
    if (action == kDone && Distance(agent_, place_) == 1) outcome.reward = Reward();
    if (action == kDone || action == kToggle) outcome.terminated = true;
    return outcome;
  }
};

// A room of any size, with a door in each of its walls.
class GoToDoor : public GoTo {
 public:
  explicit GoToDoor(int size) : GoTo(size, 4 * size * size) {}

 private:
  void Generate() override {
    Clear();
    const int width = Int(5, size_.width + 1), height = Int(5, size_.height + 1);
    Walls({0, 0}, {width, height});
    const int top = Int(2, width - 2), bottom = Int(2, width - 2);
    const int left = Int(2, height - 2), right = Int(2, height - 2);
    const Pos places[] = {{top, 0}, {bottom, height - 1}, {0, left}, {width - 1, right}};
    std::vector<Color> colors;
    while (colors.size() < std::size(places)) {
      const Color color = AnyColor();
      if (std::find(colors.begin(), colors.end(), color) == colors.end()) colors.push_back(color);
    }
    for (std::size_t i = 0; i < colors.size(); ++i) Put(Make(kDoor, colors[i], kClosed), places[i]);
    PlaceAgent({0, 0}, {width, height});
    const auto chosen = static_cast<std::size_t>(Int(0, 4));
    place_ = places[chosen];
    mission_ = std::string("go to the ") + kColorNames[colors[chosen]] + " door";
  }
};

class GoToObject : public GoTo {
 public:
  GoToObject(int size, int things) : GoTo(size, 5 * size * size), count_(things) {}

 private:
  void Generate() override {
    ClearRoom();
    std::vector<Id> things;
    while (static_cast<int>(things.size()) < count_) {
      const Id id = MakeUnlike(things);
      if (id != kNothing) Place(id);
    }
    PlaceAgent();
    const Thing& target = things_[Any(things)];
    place_ = target.at;
    mission_ = "go to the " + NameOf(target);
  }

  const int count_;
};

const bool registered =
    RegisterKind({.description = "go to the door that the mission names, and say so",
                  .missions = EachOf("go to the {} door", {ColorsByName()}),
                  .tasks = {{"MiniGrid-GoToDoor-5x5-v0", New<GoToDoor>(5)},
                            {"MiniGrid-GoToDoor-6x6-v0", New<GoToDoor>(6)},
                            {"MiniGrid-GoToDoor-8x8-v0", New<GoToDoor>(8)}}}) &&
    RegisterKind({.description = "go to the thing that the mission names, and say so",
                  .missions = EachOf("go to the {} {}", {ColorsByName(), {"key", "ball", "box"}}),
                  .tasks = {{"MiniGrid-GoToObject-6x6-N2-v0", New<GoToObject>(6, 2)},
                            {"MiniGrid-GoToObject-8x8-N2-v0", New<GoToObject>(8, 2)}}});

}  // namespace
}  // namespace torchrl_pool::minigrid
