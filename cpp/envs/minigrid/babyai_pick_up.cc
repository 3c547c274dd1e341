// Levels about picking up a thing. Reference: minigrid/envs/babyai/pickup.py and other.py.
#include "babyai_level.h"
#include "task.h"

namespace torchrl_pool::minigrid {
namespace {

class PickUpInMaze : public Level {
 public:
  PickUpInMaze(int things, bool must_be_blocked)
      : Level(8, 3, 3), count_(things), must_be_blocked_(must_be_blocked) {}

 private:
  void GenerateMission() override {
    PlaceAgentAnywhere();
    ConnectAll();
    const auto things = AddDistractors(nullptr, count_, false);
    if (AreAllReachable() == must_be_blocked_) throw Rejected();
    instruction_ = PickUp(Like(Any(things)));
  }

  const int count_;
  const bool must_be_blocked_;
};

class PickUpAmong : public Level {
 public:
  explicit PickUpAmong(bool is_strict) : Level(7, 1, 1), is_strict_(is_strict) {}

 private:
  void GenerateMission() override {
    const auto things = AddDistractors(nullptr, 5);
    PlaceAgentIn(RoomAt(0, 0));
    Description thing = Like(Any(things));
    enum { kByType, kByColor, kByBoth };
    const int telling = Int(0, 3);
    if (telling == kByColor) thing.type.reset();
    if (telling == kByType) thing.color.reset();
    instruction_ = PickUp(thing, is_strict_);
  }

  const bool is_strict_;
};

class PickUpAbove : public Level {
 public:
  PickUpAbove() : Level(kRoom, 3, 3, 8 * kRoom * kRoom) {}

 private:
  static constexpr int kRoom = 6;

  void GenerateMission() override {
    const Id thing = AddObject(RoomAt(1, 0));
    AddDoor(RoomAt(1, 1), kUpperSide, false);
    PlaceAgentIn(RoomAt(1, 1));
    ConnectAll();
    instruction_ = PickUp(Like(thing));
  }
};

class FindObject : public Level {
 public:
  explicit FindObject(int room_size) : Level(room_size, 3, 3, 20 * room_size * room_size) {}

 private:
  void GenerateMission() override {
    const Id thing = AddObject(AnyRoom());
    PlaceAgentIn(RoomAt(1, 1));
    ConnectAll();
    instruction_ = PickUp({.type = things_[thing].type});
  }
};

class PickUpInKeyCorridor : public Level {
 public:
  PickUpInKeyCorridor(int room_size, int rows) : Level(room_size, rows, 3, 30 * room_size * room_size) {}

 private:
  void GenerateMission() override {
    for (int j = 1; j < rows_; ++j) RemoveWall(RoomAt(1, j), kUpperSide);
    Room& locked = RoomAt(2, Int(0, rows_));
    const Id door = AddDoor(locked, kLeftSide, true);
    AddObject(locked, kBall);
    AddObject(RoomAt(0, Int(0, rows_)), kKey, things_[door].color);
    PlaceAgentIn(RoomAt(1, rows_ / 2));
    ConnectAll();
    instruction_ = PickUp({.type = kBall});
  }
};

class OneRoom : public Level {
 public:
  explicit OneRoom(int room_size) : Level(room_size, 1, 1) {}

 private:
  void GenerateMission() override {
    AddObject(RoomAt(0, 0), kBall);
    PlaceAgentAnywhere();
    instruction_ = PickUp({.type = kBall});
  }
};

// Go to a thing or pick it up, or go to a door or open it.
class AnyAction : public Level {
 public:
  AnyAction() : Level(7, 3, 3) {}

 private:
  void GenerateMission() override {
    Room& middle = RoomAt(1, 1);
    auto things = AddDistractors(&middle, 5);
    for (int i = 0; i < 4; ++i) things.push_back(AddDoor(middle, {}, false));
    PlaceAgentIn(middle);
    const Id thing = Any(things);
    if (Bool()) {
      instruction_ = GoTo(Like(thing));
    } else {
      instruction_ = things_[thing].type == kDoor ? Open(Like(thing)) : PickUp(Like(thing));
    }
  }
};

const Missions kPickUpMissions = UpTo(kLongestPickUp);

const bool registered =
    RegisterKind({.description = "pick up a thing in a maze of rooms",
                  .missions = kPickUpMissions,
                  .tasks = {{"BabyAI-Pickup-v0", New<PickUpInMaze>(18, false)}}}) &&
    RegisterKind({.description = "pick up a thing in a maze where others block the way",
                  .missions = kPickUpMissions,
                  .tasks = {{"BabyAI-UnblockPickup-v0", New<PickUpInMaze>(20, true)}}}) &&
    RegisterKind({.description = "pick up a thing that the mission tells by kind or colour",
                  .missions = kPickUpMissions,
                  .tasks = {{"BabyAI-PickupDist-v0", New<PickUpAmong>(false)},
                            {"BabyAI-PickupDistDebug-v0", New<PickUpAmong>(true)}}}) &&
    RegisterKind({.description = "pick up the thing in the room above",
                  .missions = kPickUpMissions,
                  .tasks = {{"BabyAI-PickupAbove-v0", New<PickUpAbove>()}}}) &&
    RegisterKind({.description = "find a thing in a maze of rooms and pick it up",
                  .missions = kPickUpMissions,
                  .tasks = {{"BabyAI-FindObjS5-v0", New<FindObject>(5)},
                            {"BabyAI-FindObjS6-v0", New<FindObject>(6)},
                            {"BabyAI-FindObjS7-v0", New<FindObject>(7)}}}) &&
    RegisterKind({.description = "find the key to a room and pick up the ball in it",
                  .missions = kPickUpMissions,
                  .tasks = {{"BabyAI-KeyCorridor-v0", New<PickUpInKeyCorridor>(6, 3)},
                            {"BabyAI-KeyCorridorS3R1-v0", New<PickUpInKeyCorridor>(3, 1)},
                            {"BabyAI-KeyCorridorS3R2-v0", New<PickUpInKeyCorridor>(3, 2)},
                            {"BabyAI-KeyCorridorS3R3-v0", New<PickUpInKeyCorridor>(3, 3)},
                            {"BabyAI-KeyCorridorS4R3-v0", New<PickUpInKeyCorridor>(4, 3)},
                            {"BabyAI-KeyCorridorS5R3-v0", New<PickUpInKeyCorridor>(5, 3)},
                            {"BabyAI-KeyCorridorS6R3-v0", New<PickUpInKeyCorridor>(6, 3)}}}) &&
    RegisterKind({.description = "pick up the ball in a room",
                  .missions = kPickUpMissions,
                  .tasks = {{"BabyAI-OneRoomS8-v0", New<OneRoom>(8)},
                            {"BabyAI-OneRoomS12-v0", New<OneRoom>(12)},
                            {"BabyAI-OneRoomS16-v0", New<OneRoom>(16)},
                            {"BabyAI-OneRoomS20-v0", New<OneRoom>(20)}}}) &&
    RegisterKind({.description = "go to a thing or a door, pick it up or open it",
                  .missions = kPickUpMissions,
                  .tasks = {{"BabyAI-ActionObjDoor-v0", New<AnyAction>()}}});

}  // namespace
}  // namespace torchrl_pool::minigrid
