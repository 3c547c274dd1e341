// Rooms at a corridor: a ball in a locked one, the key in another. Reference: minigrid/envs/keycorridor.py.
#include "room_grid.h"
#include "task.h"

namespace torchrl_pool::minigrid {
namespace {

class KeyCorridor : public RoomGrid {
 public:
  KeyCorridor(int room_size, int rows) : RoomGrid(room_size, rows, 3, 30 * room_size * room_size) {}

  Outcome Step(int action) override { return EndOncePickedUp(action); }

 private:
  void Generate() override {
    RoomGrid::Generate();
    for (int j = 1; j < rows_; ++j) RemoveWall(RoomAt(1, j), kUpperSide);
    Room& locked = RoomAt(2, Int(0, rows_));
    const Id door = AddDoor(locked, kLeftSide, true);
    target_ = AddObject(locked, kBall);
    AddObject(RoomAt(0, Int(0, rows_)), kKey, things_[door].color);
    PlaceAgentIn(RoomAt(1, rows_ / 2));
    ConnectAll();
    mission_ = "pick up the " + NameOf(things_[target_]);
  }
};

const bool registered = RegisterKind({.description = "find the key to a room and pick up the ball in it",
                                      .missions = EachOf("pick up the {} ball", {ColorsByName()}),
                                      .tasks = {{"MiniGrid-KeyCorridorS3R1-v0", New<KeyCorridor>(3, 1)},
                                                {"MiniGrid-KeyCorridorS3R2-v0", New<KeyCorridor>(3, 2)},
                                                {"MiniGrid-KeyCorridorS3R3-v0", New<KeyCorridor>(3, 3)},
                                                {"MiniGrid-KeyCorridorS4R3-v0", New<KeyCorridor>(4, 3)},
                                                {"MiniGrid-KeyCorridorS5R3-v0", New<KeyCorridor>(5, 3)},
                                                {"MiniGrid-KeyCorridorS6R3-v0", New<KeyCorridor>(6, 3)}}});

}  // namespace
}  // namespace torchrl_pool::minigrid
