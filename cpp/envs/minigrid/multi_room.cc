// A chain of rooms with doors between them. Reference: minigrid/envs/multiroom.py.
#include <algorithm>

#include "task.h"

namespace torchrl_pool::minigrid {
namespace {

const std::string kMultiRoomMission = "traverse the rooms to get to the goal";

class MultiRoom : public World {
 public:
  MultiRoom(int rooms, int max_room_size)
      : World({25, 25}, rooms * 20, false), count_(rooms), max_room_size_(max_room_size) {}

 private:
  enum Wall { kRightWall, kLowerWall, kLeftWall, kUpperWall };
  struct Room {
    Pos top;
    Size size;
    Pos entry;
  };

  void Generate() override {
    const int count = Int(count_, count_ + 1);
    std::vector<Room> rooms;
    while (static_cast<int>(rooms.size()) < count) {
      std::vector<Room> chain;
      const int x = Int(0, size_.width - 2), y = Int(0, size_.width - 2);
      AddRooms(count, chain, kLeftWall, {x, y});
      if (chain.size() > rooms.size()) rooms = chain;
    }
    Clear();
    std::vector<Color> colors(std::begin(kByName), std::end(kByName));
    Color previous = kNoColor;
    for (const Room& room : rooms) {
      Walls(room.top, room.size);
      if (&room == &rooms.front()) continue;
      std::vector<Color> others = colors;
      others.erase(std::remove(others.begin(), others.end(), previous), others.end());
      previous = Any(others);
      Set(room.entry, Make(kDoor, previous, kClosed));
    }
    PlaceAgent(rooms.front().top, rooms.front().size);
    Place(Make(kGoal, kGreen), rooms.back().top, rooms.back().size);
    mission_ = kMultiRoomMission;
  }

  // Adds a room and those that follow, as many as find a place; false where not even the first does.
  bool AddRooms(int wanted, std::vector<Room>& rooms, Wall wall, Pos entry) {
    const int width = Int(4, max_room_size_ + 1), height = Int(4, max_room_size_ + 1);
    const Pos top = rooms.empty() ? entry : TopOf({width, height}, wall, entry);
    if (!Fits(rooms, top, {width, height})) return false;
    rooms.push_back({top, {width, height}, entry});
    if (wanted == 1) return true;
    constexpr int kTries = 8;
    for (int i = 0; i < kTries; ++i) {
      int exit = Int(0, 3);  // of the walls but the entry's
      exit += exit >= wall;
      Pos door;
      if (exit == kRightWall || exit == kLeftWall) {
        door = {exit == kLeftWall ? top.x : top.x + width - 1, top.y + Int(1, height - 1)};
      } else {
        const int x = top.x + Int(1, width - 1);
        door = {x, exit == kUpperWall ? top.y : top.y + height - 1};
      }
      if (AddRooms(wanted - 1, rooms, static_cast<Wall>((exit + 2) % 4), door)) break;
    }
    return true;
  }

  // Where a room begins that is entered through one of its walls.
  Pos TopOf(Size size, Wall wall, Pos entry) {
    if (wall == kRightWall || wall == kLeftWall) {
      return {wall == kLeftWall ? entry.x : entry.x - size.width + 1,
              Int(entry.y - size.height + 2, entry.y)};
    }
    const int x = Int(entry.x - size.width + 2, entry.x);
    return {x, wall == kUpperWall ? entry.y : entry.y - size.height + 1};
  }

  bool Fits(const std::vector<Room>& rooms, Pos top, Size size) const {
    if (top.x < 0 || top.y < 0) return false;
    if (top.x + size.width > size_.width || top.y + size.height >= size_.height) return false;
    const auto is_apart = [&](const Room& room) {
      return top.x + size.width < room.top.x || room.top.x + room.size.width <= top.x ||
             top.y + size.height < room.top.y || room.top.y + room.size.height <= top.y;
    };
    return rooms.empty() || std::all_of(rooms.begin(), rooms.end() - 1, is_apart);
  }

  static constexpr Color kNoColor = static_cast<Color>(kColors);  // none
  const int count_, max_room_size_;
};

const bool registered = RegisterKind({.description = "open doors from room to room and reach the goal",
                                      .missions = EachOf(kMultiRoomMission),
                                      .tasks = {{"MiniGrid-MultiRoom-N2-S4-v0", New<MultiRoom>(2, 4)},
                                                {"MiniGrid-MultiRoom-N4-S5-v0", New<MultiRoom>(6, 5)},
                                                {"MiniGrid-MultiRoom-N4-S5-v1", New<MultiRoom>(4, 5)},
                                                {"MiniGrid-MultiRoom-N6-v0", New<MultiRoom>(6, 10)}}});

}  // namespace
}  // namespace torchrl_pool::minigrid
