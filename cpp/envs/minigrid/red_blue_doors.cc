// Open the red door before the blue one. Reference: minigrid/envs/redbluedoors.py.
#include "task.h"

namespace torchrl_pool::minigrid {
namespace {

const std::string kRedBlueDoorsMission = "open the red door then the blue door";

class RedBlueDoors : public World {
 public:
  explicit RedBlueDoors(int size) : World({2 * size, size}, 20 * size * size, false) {}

  Outcome Step(int action) override {
    const bool red_was_open = IsOpen(kRedDoor), blue_was_open = IsOpen(kBlueDoor);
    const Outcome outcome = World::Step(action);
    if (IsOpen(kBlueDoor)) {
      return {.reward = red_was_open ? Reward() : 0, .terminated = true, .truncated = outcome.truncated};
    }
    const bool wrong = IsOpen(kRedDoor) && blue_was_open;
    return wrong ? Outcome{.reward = 0, .terminated = true, .truncated = outcome.truncated} : outcome;
  }

 private:
  static constexpr Id kRedDoor = 2, kBlueDoor = 3;  // the first things made

  bool IsOpen(Id door) const { return things_[door].state == kOpen; }

  void Generate() override {
    ClearRoom();
    const int side = size_.height, left = side / 2;
    Walls({left, 0}, {side, side});
    PlaceAgent({left, 0}, {side, side});
    const int red = Int(1, side - 1);
    Set({left, red}, Make(kDoor, kRed, kClosed));
    const int blue = Int(1, side - 1);
    Set({left + side - 1, blue}, Make(kDoor, kBlue, kClosed));
    mission_ = kRedBlueDoorsMission;
  }

  void CheckMore() const override {
    const bool is_new = things_.size() == 2;  // before the first reset
    if (things_.size() != 4 && !is_new)
      throw InvalidArgument("corrupt saved state: a value is out of its range");
  }
};

const bool registered = RegisterKind({.description = "open two doors in the right order",
                                      .missions = EachOf(kRedBlueDoorsMission),
                                      .tasks = {{"MiniGrid-RedBlueDoors-6x6-v0", New<RedBlueDoors>(6)},
                                                {"MiniGrid-RedBlueDoors-8x8-v0", New<RedBlueDoors>(8)}}});

}  // namespace
}  // namespace torchrl_pool::minigrid
