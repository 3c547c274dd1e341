// Levels about locked doors. Reference: minigrid/envs/babyai/unlock.py.
#include "babyai_level.h"
#include "task.h"

namespace torchrl_pool::minigrid {
namespace {

constexpr int kUnlockRoom = 6, kUnlockSteps = kUnlockRoom * kUnlockRoom;

class UnlockInMaze : public Level {
 public:
  UnlockInMaze() : Level(8, 3, 3) {}

 private:
  void GenerateMission() override {
    Room& locked = AnyRoom();
    const Id door = AddDoor(locked, {}, true);
    const Color color = things_[door].color;
    // The reference means to leave the locked room out, here and below, and does not.
    AddObject(AnyRoom(), kKey, color);
    if (Bool()) {
      ConnectAll(color);
    } else {
      ConnectAll();
    }
    for (int i = 0; i < columns_; ++i) {
      for (int j = 0; j < rows_; ++j) AddDistractors(&RoomAt(i, j), 3, false);
    }
    do {
      PlaceAgentAnywhere();
    } while (&RoomOf(agent_) == &locked);
    RequireReachable();
    instruction_ = Open(Like(door));
  }
};

class UnlockLocal : public Level {
 public:
  explicit UnlockLocal(int distractors) : Level(8, 3, 3), distractors_(distractors) {}

 private:
  void GenerateMission() override {
    Room& middle = RoomAt(1, 1);
    const Id door = AddDoor(middle, {}, true);
    AddObject(middle, kKey, things_[door].color);
    AddDistractors(&middle, distractors_);
    PlaceAgentIn(middle);
    instruction_ = Open({.type = kDoor});
  }

  const int distractors_;
};

class KeyInBox : public Level {
 public:
  KeyInBox() : Level(8, 3, 3) {}

 private:
  void GenerateMission() override {
    Room& middle = RoomAt(1, 1);
    const Id door = AddDoor(middle, {}, true);
    const Id key = Make(kKey, things_[door].color), box = Make(kBox, AnyColor());
    things_[box].contains = key;
    PlaceInRoom(middle, box);
    PlaceAgentIn(middle);
    instruction_ = Open({.type = kDoor});
  }
};

class UnlockToPickUp : public Level {
 public:
  explicit UnlockToPickUp(int distractors) : Level(kUnlockRoom, 1, 2), distractors_(distractors) {}

 private:
  void GenerateMission() override {
    Room& room = RoomAt(0, 0);
    const Id box = AddObject(RoomAt(1, 0), kBox);
    const Id door = AddDoor(room, kRightSide, true);
    AddObject(room, kKey, things_[door].color);
    AddDistractors(nullptr, distractors_);
    PlaceAgentIn(room);
    instruction_ = PickUp(Like(box));
  }

  const int distractors_;
};

class BlockedUnlockPickup : public Level {
 public:
  BlockedUnlockPickup() : Level(kUnlockRoom, 1, 2, 16 * kUnlockSteps) {}

 private:
  void GenerateMission() override {
    Room& room = RoomAt(0, 0);
    AddObject(RoomAt(1, 0), kBox);
    const Id door = AddDoor(room, kRightSide, true);
    Set(things_[door].at - Pos{1, 0}, Make(kBall, AnyColor()));
    AddObject(room, kKey, things_[door].color);
    PlaceAgentIn(room);
    instruction_ = PickUp({.type = kBox});
  }
};

// The key to the first door lies behind the second.
class UnlockToUnlock : public Level {
 public:
  UnlockToUnlock() : Level(kUnlockRoom, 1, 3, 30 * kUnlockSteps) {}

 private:
  void GenerateMission() override {
    const auto colors = Subset(std::vector<Color>(std::begin(kByName), std::end(kByName)), 2);
    AddDoor(RoomAt(0, 0), kRightSide, colors[0], true);
    AddObject(RoomAt(2, 0), kKey, colors[0]);
    AddDoor(RoomAt(1, 0), kRightSide, colors[1], true);
    AddObject(RoomAt(1, 0), kKey, colors[1]);
    AddObject(RoomAt(0, 0), kBall);
    PlaceAgentIn(RoomAt(1, 0));
    instruction_ = PickUp({.type = kBall});
  }
};

const Missions kOpening = UpTo(kLongestOpen), kPickingUp = UpTo(kLongestPickUp);

const bool registered =
    RegisterKind({.description = "unlock a door in a maze of rooms",
                  .missions = kOpening,
                  .tasks = {{"BabyAI-Unlock-v0", New<UnlockInMaze>()}}}) &&
    RegisterKind({.description = "unlock the door of a room with the key in it",
                  .missions = kOpening,
                  .tasks = {{"BabyAI-UnlockLocal-v0", New<UnlockLocal>(0)},
                            {"BabyAI-UnlockLocalDist-v0", New<UnlockLocal>(3)}}}) &&
    RegisterKind({.description = "unlock a door with a key that lies in a box",
                  .missions = kOpening,
                  .tasks = {{"BabyAI-KeyInBox-v0", New<KeyInBox>()}}}) &&
    RegisterKind({.description = "pick up a box behind a locked door",
                  .missions = kPickingUp,
                  .tasks = {{"BabyAI-UnlockPickup-v0", New<UnlockToPickUp>(0)},
                            {"BabyAI-UnlockPickupDist-v0", New<UnlockToPickUp>(4)}}}) &&
    RegisterKind({.description = "pick up a box behind a locked door that is blocked",
                  .missions = kPickingUp,
                  .tasks = {{"BabyAI-BlockedUnlockPickup-v0", New<BlockedUnlockPickup>()}}}) &&
    RegisterKind({.description = "unlock one door to find the key to another",
                  .missions = kPickingUp,
                  .tasks = {{"BabyAI-UnlockToUnlock-v0", New<UnlockToUnlock>()}}});

}  // namespace
}  // namespace torchrl_pool::minigrid
