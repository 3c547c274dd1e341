// Nine rooms full of things, and no mission. Reference: minigrid/envs/playground.py.
#include "task.h"

namespace torchrl_pool::minigrid {
namespace {

class Playground : public World {
 public:
  Playground() : World({19, 19}, 100, false) {}

 private:
  void Generate() override {
    ClearRoom();
    const int side = size_.width / 3;
    for (int j = 0; j < 3; ++j) {
      for (int i = 0; i < 3; ++i) {
        const int left = i * side, top = j * side, right = left + side, bottom = top + side;
        if (i < 2) {
          VerticalWall(right, top, side);
          const int y = Int(top + 1, bottom - 1);
          Set({right, y}, Make(kDoor, AnyColor(), kClosed));
        }
        if (j < 2) {
          HorizontalWall(left, bottom, side);
          const int x = Int(left + 1, right - 1);
          Set({x, bottom}, Make(kDoor, AnyColor(), kClosed));
        }
      }
    }
    PlaceAgent();
    for (int i = 0; i < 12; ++i) {
      const Type type = Any(kMovable);
      Place(Make(type, AnyColor()));
    }
    mission_ = "";
  }
};

const bool registered = RegisterKind({.description = "rooms and things, no goal",
                                      .missions = EachOf(""),
                                      .tasks = {{"MiniGrid-Playground-v0", New<Playground>()}}});

}  // namespace
}  // namespace torchrl_pool::minigrid
