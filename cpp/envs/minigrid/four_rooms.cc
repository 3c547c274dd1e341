// Four rooms with gaps between them. Reference: minigrid/envs/fourrooms.py.
#include "task.h"

namespace torchrl_pool::minigrid {
namespace {

class FourRooms : public World {
 public:
  FourRooms() : World({19, 19}, 100, false) {}

 private:
  void Generate() override {
    ClearRoom();
    const int half = size_.width / 2;
    for (int top : {0, half}) {
      for (int left : {0, half}) {
        const int right = left + half, bottom = top + half;
        if (left == 0) {
          VerticalWall(right, top, half);
          Set({right, Int(top + 1, bottom)}, kNothing);
        }
        if (top == 0) {
          HorizontalWall(left, bottom, half);
          Set({Int(left + 1, right), bottom}, kNothing);
        }
      }
    }
    PlaceAgent();
    Place(Make(kGoal, kGreen));
    mission_ = "reach the goal";
  }
};

const bool registered = RegisterKind({.description = "reach a goal in one of four rooms",
                                      .missions = EachOf("reach the goal"),
                                      .tasks = {{"MiniGrid-FourRooms-v0", New<FourRooms>()}}});

}  // namespace
}  // namespace torchrl_pool::minigrid
