// A blue ball behind locked doors, whose keys may lie in boxes and which balls may block.
// Reference: minigrid/envs/obstructedmaze.py, obstructedmaze_v1.py.
#include "room_grid.h"
#include "task.h"

namespace torchrl_pool::minigrid {
namespace {

constexpr int kMazeRoom = 6;

class ObstructedMaze : public RoomGrid {
 public:
  ObstructedMaze(int rows, int columns, int rooms_visited, bool key_in_box, bool blocked)
      : RoomGrid(kMazeRoom, rows, columns, 4 * rooms_visited * kMazeRoom * kMazeRoom),
        key_in_box_(key_in_box),
        blocked_(blocked) {}

  Outcome Step(int action) override { return EndOncePickedUp(action); }

 protected:
  void Generate() override {
    RoomGrid::Generate();
    door_colors_ = Subset(std::vector<Color>(std::begin(kByName), std::end(kByName)), kColors);
    mission_ = "pick up the blue ball";
  }
  Color DoorColor(int n) const { return door_colors_[static_cast<std::size_t>((n + kColors) % kColors)]; }

  void AddLockedDoor(Room& room, Side side, Color color) {
    const Id door = AddDoor(room, side, color, true);
    if (blocked_) Set(things_[door].at - kDirections[side], Make(kBall, kGreen));
  }
  void AddKey(Room& room, Color color) {
    Id id = Make(kKey, color);
    if (key_in_box_) {
      const Id key = id;
      id = Make(kBox, kGrey);
      things_[id].contains = key;
    }
    PlaceInRoom(room, id);
  }

 private:
  const bool key_in_box_, blocked_;
  std::vector<Color> door_colors_;
};

class OneDoor : public ObstructedMaze {
 public:
  OneDoor(bool key_in_box, bool blocked) : ObstructedMaze(1, 2, 2, key_in_box, blocked) {}

 private:
  void Generate() override {
    ObstructedMaze::Generate();
    AddLockedDoor(RoomAt(0, 0), kRightSide, DoorColor(0));
    AddKey(RoomAt(0, 0), DoorColor(0));
    target_ = AddObject(RoomAt(1, 0), kBall, kBlue);
    PlaceAgentIn(RoomAt(0, 0));
  }
};

struct Quarters {
  int column;  // of the room in the middle row where the agent begins
  bool key_in_box, blocked;
  int count, rooms_visited;
};

// Nine rooms; from the middle one doors lead aside, and from there two locked ones each into the corners.
class QuarteredMaze : public ObstructedMaze {
 public:
  // keys_first: the keys of a quarter are placed before its second door.
  QuarteredMaze(Quarters quarters, bool keys_first)
      : ObstructedMaze(3, 3, quarters.rooms_visited, quarters.key_in_box, quarters.blocked),
        quarters_(quarters),
        keys_first_(keys_first) {}

 private:
  void Generate() override {
    ObstructedMaze::Generate();
    constexpr int kAside[4][2] = {{2, 1}, {1, 2}, {0, 1}, {1, 0}};
    constexpr int kCorners[4][2] = {{2, 0}, {2, 2}, {0, 2}, {0, 0}};
    for (int i = 0; i < quarters_.count; ++i) {
      AddDoor(RoomAt(1, 1), static_cast<Side>(i), DoorColor(i), false);
      Room& aside = RoomAt(kAside[i][0], kAside[i][1]);
      for (const int turn : {-1, 1}) {
        AddLockedDoor(aside, static_cast<Side>((i + turn + 4) % 4), DoorColor(i + turn));
        if (keys_first_) AddKey(aside, DoorColor(i + turn));
      }
      for (const int turn : {-1, 1}) {
        if (!keys_first_) AddKey(aside, DoorColor(i + turn));
      }
    }
    const int* corner = kCorners[Int(0, quarters_.count)];
    target_ = AddObject(RoomAt(corner[0], corner[1]), kBall, kBlue);
    PlaceAgentIn(RoomAt(quarters_.column, 1));
  }

  const Quarters quarters_;
  const bool keys_first_;
};

constexpr Quarters kLockedDoors{2, false, false, 1, 4}, kHiddenKeys{2, true, false, 1, 4},
    kBlockedDoors{2, true, true, 1, 4}, kOneQuarter{1, true, true, 1, 5}, kTwoQuarters{2, true, true, 2, 11},
    kAllQuarters{1, true, true, 4, 25};

const bool registered =
    RegisterKind({.description = "pick up the blue ball behind a locked door",
                  .missions = EachOf("pick up the blue ball"),
                  .tasks = {{"MiniGrid-ObstructedMaze-1Dl-v0", New<OneDoor>(false, false)},
                            {"MiniGrid-ObstructedMaze-1Dlh-v0", New<OneDoor>(true, false)},
                            {"MiniGrid-ObstructedMaze-1Dlhb-v0", New<OneDoor>(true, true)}}}) &&
    RegisterKind({.description = "pick up the blue ball in a maze of locked doors",
                  .missions = EachOf("pick up the blue ball"),
                  .tasks = {{"MiniGrid-ObstructedMaze-2Dl-v0", New<QuarteredMaze>(kLockedDoors, true)},
                            {"MiniGrid-ObstructedMaze-2Dlh-v0", New<QuarteredMaze>(kHiddenKeys, true)},
                            {"MiniGrid-ObstructedMaze-2Dlhb-v0", New<QuarteredMaze>(kBlockedDoors, true)},
                            {"MiniGrid-ObstructedMaze-1Q-v0", New<QuarteredMaze>(kOneQuarter, true)},
                            {"MiniGrid-ObstructedMaze-2Q-v0", New<QuarteredMaze>(kTwoQuarters, true)},
                            {"MiniGrid-ObstructedMaze-Full-v0", New<QuarteredMaze>(kAllQuarters, true)}}}) &&
    RegisterKind({.description = "pick up the blue ball in a maze of locked doors, none blocked by a key",
                  .missions = EachOf("pick up the blue ball"),
                  .tasks = {{"MiniGrid-ObstructedMaze-2Dlhb-v1", New<QuarteredMaze>(kBlockedDoors, false)},
                            {"MiniGrid-ObstructedMaze-1Q-v1", New<QuarteredMaze>(kOneQuarter, false)},
                            {"MiniGrid-ObstructedMaze-2Q-v1", New<QuarteredMaze>(kTwoQuarters, false)},
                            {"MiniGrid-ObstructedMaze-Full-v1", New<QuarteredMaze>(kAllQuarters, false)}}});

}  // namespace
}  // namespace torchrl_pool::minigrid
