// Levels about opening doors. Reference: minigrid/envs/babyai/open.py.
#include "babyai_level.h"
#include "task.h"

namespace torchrl_pool::minigrid {
namespace {

constexpr int kOpenRoom = 6, kOpenSteps = 20 * kOpenRoom * kOpenRoom;

std::vector<Color> AllColors() { return {std::begin(kByName), std::end(kByName)}; }

class OpenInMaze : public Level {
 public:
  OpenInMaze() : Level(8, 3, 3) {}

 private:
  void GenerateMission() override {
    PlaceAgentAnywhere();
    ConnectAll();
    AddDistractors(nullptr, 18, false);
    RequireReachable();
    std::vector<Id> doors;  // each as often as there are rooms at it
    for (int i = 0; i < columns_; ++i) {
      for (int j = 0; j < rows_; ++j) {
        for (const Id door : RoomAt(i, j).doors) {
          if (door != kNothing) doors.push_back(door);
        }
      }
    }
    instruction_ = Open(Like(Any(doors)));
  }
};

class OpenRedDoor : public Level {
 public:
  OpenRedDoor() : Level(5, 1, 2) {}

 private:
  void GenerateMission() override {
    AddDoor(RoomAt(0, 0), kRightSide, kRed, false);
    PlaceAgentIn(RoomAt(0, 0));
    instruction_ = Open({.type = kDoor, .color = kRed});
  }
};

// The door to open is told by its colour or by where it lies, or by either.
enum Telling { kByColor, kByLocation, kByEither };

class OpenDoor : public Level {
 public:
  OpenDoor(bool is_strict, Telling telling) : Level(8, 3, 3), is_strict_(is_strict), telling_(telling) {}

 private:
  void GenerateMission() override {
    const auto colors = Subset(AllColors(), 4);
    Room& middle = RoomAt(1, 1);
    for (int side = 0; side < 4; ++side) {
      AddDoor(middle, static_cast<Side>(side), colors[static_cast<std::size_t>(side)], false);
    }
    const Telling telling = telling_ == kByEither ? static_cast<Telling>(Int(0, 2)) : telling_;
    Description door{.type = kDoor};
    if (telling == kByColor) {
      door.color = colors[0];
    } else {
      door.location = Any(kLocations);
    }
    PlaceAgentIn(middle);
    instruction_ = Open(door, is_strict_);
  }

  const bool is_strict_;
  const Telling telling_;
};

class OpenTwoDoors : public Level {
 public:
  OpenTwoDoors(bool red_and_blue, bool is_strict)
      : Level(kOpenRoom, 3, 3, kOpenSteps), red_and_blue_(red_and_blue), is_strict_(is_strict) {}

 private:
  void GenerateMission() override {
    auto colors = Subset(AllColors(), 2);
    if (red_and_blue_) colors = {kRed, kBlue};
    Room& middle = RoomAt(1, 1);
    const Id first = AddDoor(middle, kLeftSide, colors[0], false);
    const Id second = AddDoor(middle, kRightSide, colors[1], false);
    PlaceAgentIn(middle);
    instruction_ = {{Open(Like(first), is_strict_)}, {Open(Like(second))}, false};
  }

  const bool red_and_blue_, is_strict_;
};

class OpenDoorsInOrder : public Level {
 public:
  OpenDoorsInOrder(int doors, bool is_strict)
      : Level(kOpenRoom, 3, 3, kOpenSteps), count_(doors), is_strict_(is_strict) {}

 private:
  void GenerateMission() override {
    Room& middle = RoomAt(1, 1);
    std::vector<Id> doors;
    for (const Color color : Subset(AllColors(), count_)) {
      const Side side = AnySide(middle);
      doors.push_back(AddDoor(middle, side, color, false));
    }
    PlaceAgentIn(middle);
    const auto two = Subset(doors, 2);
    const Order one = Open(Like(two[0]), is_strict_), other = Open(Like(two[1]), is_strict_);
    switch (Int(0, 3)) {
      case 0:
        instruction_ = one;
        break;
      case 1:
        instruction_ = {{one}, {other}, false};
        break;
      default:
        instruction_ = {{other}, {one}, true};
    }
  }

  const int count_;
  const bool is_strict_;
};

const Missions kOneDoor = UpTo(kLongestOpen), kTwoDoors = UpTo(2 * kLongestOpen + kLongestJoint);

const bool registered =
    RegisterKind({.description = "open a door in a maze of rooms",
                  .missions = kOneDoor,
                  .tasks = {{"BabyAI-Open-v0", New<OpenInMaze>()}}}) &&
    RegisterKind({.description = "open the red door",
                  .missions = kOneDoor,
                  .tasks = {{"BabyAI-OpenRedDoor-v0", New<OpenRedDoor>()}}}) &&
    RegisterKind({.description = "open the door that the mission tells by colour or place",
                  .missions = UpTo(5 + 4 + 4 + kLongestPlace),  // "open the door in front of you"
                  .tasks = {{"BabyAI-OpenDoor-v0", New<OpenDoor>(false, kByEither)},
                            {"BabyAI-OpenDoorDebug-v0", New<OpenDoor>(true, kByEither)},
                            {"BabyAI-OpenDoorColor-v0", New<OpenDoor>(false, kByColor)},
                            {"BabyAI-OpenDoorLoc-v0", New<OpenDoor>(false, kByLocation)}}}) &&
    RegisterKind({.description = "open two doors, one after the other",
                  .missions = kTwoDoors,
                  .tasks = {{"BabyAI-OpenTwoDoors-v0", New<OpenTwoDoors>(false, false)},
                            {"BabyAI-OpenRedBlueDoors-v0", New<OpenTwoDoors>(true, false)},
                            {"BabyAI-OpenRedBlueDoorsDebug-v0", New<OpenTwoDoors>(true, true)}}}) &&
    RegisterKind({.description = "open doors in the order that the mission tells",
                  .missions = kTwoDoors,
                  .tasks = {{"BabyAI-OpenDoorsOrderN2-v0", New<OpenDoorsInOrder>(2, false)},
                            {"BabyAI-OpenDoorsOrderN4-v0", New<OpenDoorsInOrder>(4, false)},
                            {"BabyAI-OpenDoorsOrderN2Debug-v0", New<OpenDoorsInOrder>(2, true)},
                            {"BabyAI-OpenDoorsOrderN4Debug-v0", New<OpenDoorsInOrder>(4, true)}}});

}  // namespace
}  // namespace torchrl_pool::minigrid
