// Six rooms at a corridor; the locked one has the goal, another the key. Reference:
// minigrid/envs/lockedroom.py.
#include "task.h"

namespace torchrl_pool::minigrid {
namespace {

const std::string kLockedRoomMission =
    "get the {} key from the {} room, unlock the {} door and go to the goal";

class LockedRoom : public World {
 public:
  LockedRoom() : World({kSize, kSize}, 10 * kSize, false) {}

 private:
  static constexpr int kSize = 19, kLeft = kSize / 2 - 2, kRight = kSize / 2 + 2, kHeight = kSize / 3;
  struct Room {
    Pos top, door;
    Color color = kRed;
  };

  void Generate() override {
    ClearRoom();
    VerticalWall(kLeft, 0, kSize);
    VerticalWall(kRight, 0, kSize);
    std::vector<Room> rooms;
    for (int n = 0; n < 3; ++n) {
      const int y = n * kHeight;
      HorizontalWall(0, y, kLeft);
      HorizontalWall(kRight, y, kSize - kRight);
      rooms.push_back({{0, y}, {kLeft, y + 3}});
      rooms.push_back({{kRight, y}, {kRight, y + 3}});
    }
    const auto locked = static_cast<std::size_t>(Int(0, 6));
    Set(AnyPlace(rooms[locked]), Make(kGoal, kGreen));
    const auto colors = Subset(std::vector<Color>(std::begin(kByName), std::end(kByName)), 6);
    for (std::size_t i = 0; i < rooms.size(); ++i) {
      rooms[i].color = colors[i];
      Set(rooms[i].door, Make(kDoor, rooms[i].color, i == locked ? kLocked : kClosed));
    }
    std::size_t with_key;
    do {
      with_key = static_cast<std::size_t>(Int(0, 6));
    } while (with_key == locked);
    Set(AnyPlace(rooms[with_key]), Make(kKey, rooms[locked].color));
    PlaceAgent({kLeft, 0}, {kRight - kLeft, kSize});
    mission_ = std::string("get the ") + kColorNames[rooms[locked].color] + " key from the " +
               kColorNames[rooms[with_key].color] + " room, unlock the " + kColorNames[rooms[locked].color] +
               " door and go to the goal";
  }

  Pos AnyPlace(const Room& room) {
    const int x = Int(room.top.x + 1, room.top.x + kLeft), y = Int(room.top.y + 1, room.top.y + kHeight);
    return {x, y};
  }
};

const bool registered =
    RegisterKind({.description = "find the key to a locked room and reach the goal in it",
                  .missions = EachOf(kLockedRoomMission, {ColorsByName(), ColorsByName(), ColorsByName()}),
                  .tasks = {{"MiniGrid-LockedRoom-v0", New<LockedRoom>()}}});

}  // namespace
}  // namespace torchrl_pool::minigrid
