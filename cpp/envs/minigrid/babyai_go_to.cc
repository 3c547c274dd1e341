// Levels about going to a thing. Reference: minigrid/envs/babyai/goto.py.
#include "babyai_level.h"
#include "task.h"

namespace torchrl_pool::minigrid {
namespace {

constexpr int kRoom = 8;

class GoToRedBall : public Level {
 public:
  GoToRedBall(int distractors, bool are_grey)
      : Level(kRoom, 1, 1), distractors_(distractors), are_grey_(are_grey) {}

 private:
  void GenerateMission() override {
    PlaceAgentAnywhere();
    const Id ball = AddObject(RoomAt(0, 0), kBall, kRed);
    const auto others = AddDistractors(nullptr, distractors_, false);
    if (are_grey_) {
      for (const Id id : others) things_[id].color = kGrey;
    }
    RequireReachable();
    instruction_ = GoTo(Like(ball));
  }

  const int distractors_;
  const bool are_grey_;
};

class GoToOneObject : public Level {
 public:
  explicit GoToOneObject(int room_size) : Level(room_size, 1, 1) {}

 private:
  void GenerateMission() override {
    PlaceAgentAnywhere();
    instruction_ = GoTo(Like(AddDistractors(nullptr, 1).front()));
  }
};

class GoToLocal : public Level {
 public:
  GoToLocal(int room_size, int distractors) : Level(room_size, 1, 1), distractors_(distractors) {}

 private:
  void GenerateMission() override {
    PlaceAgentAnywhere();
    const auto things = AddDistractors(nullptr, distractors_, false);
    RequireReachable();
    instruction_ = GoTo(Like(Any(things)));
  }

  const int distractors_;
};

class GoToInMaze : public Level {
 public:
  GoToInMaze(int room_size, int rows, int distractors, bool doors_are_open)
      : Level(room_size, rows, rows), distractors_(distractors), doors_are_open_(doors_are_open) {}

 private:
  void GenerateMission() override {
    PlaceAgentAnywhere();
    ConnectAll();
    const auto things = AddDistractors(nullptr, distractors_, false);
    RequireReachable();
    instruction_ = GoTo(Like(Any(things)));
    if (!doors_are_open_) return;
    for (Thing& thing : things_) {
      if (thing.type == kDoor) thing.state = kOpen;
    }
  }

  const int distractors_;
  const bool doors_are_open_;
};

class GoToLocked : public Level {
 public:
  GoToLocked() : Level(kRoom, 3, 3) {}

 private:
  void GenerateMission() override {
    Room& locked = AnyRoom();
    const Id door = AddDoor(locked, {}, true);
    // The reference means to leave the locked room out, here and below, and does not.
    AddObject(AnyRoom(), kKey, things_[door].color);
    ConnectAll();
    for (int i = 0; i < columns_; ++i) {
      for (int j = 0; j < rows_; ++j) AddDistractors(&RoomAt(i, j), 2, false);
    }
    do {
      PlaceAgentAnywhere();
    } while (&RoomOf(agent_) == &locked);
    RequireReachable();
    instruction_ = GoTo(Like(AddDistractors(&locked, 1, false).front()));
  }
};

class GoToRedBlueBall : public Level {
 public:
  GoToRedBlueBall() : Level(kRoom, 1, 1) {}

 private:
  void GenerateMission() override {
    PlaceAgentAnywhere();
    for (const Id id : AddDistractors(nullptr, 7, false)) {
      const Thing& thing = things_[id];
      if (thing.type == kBall && (thing.color == kRed || thing.color == kBlue)) throw Rejected();
    }
    constexpr Color kEither[] = {kRed, kBlue};
    const Id ball = AddObject(RoomAt(0, 0), kBall, Any(kEither));
    RequireReachable();
    instruction_ = GoTo(Like(ball));
  }
};

class GoToOneDoor : public Level {
 public:
  explicit GoToOneDoor(bool with_things) : Level(with_things ? 8 : 7, 3, 3), with_things_(with_things) {}

 private:
  void GenerateMission() override {
    Room& middle = RoomAt(1, 1);
    std::vector<Id> things;
    if (with_things_) {
      PlaceAgentIn(middle);
      things = AddDistractors(&middle, 8, false);
    }
    for (int i = 0; i < 4; ++i) things.push_back(AddDoor(middle, {}, {}));
    if (with_things_) {
      RequireReachable();
    } else {
      PlaceAgentIn(middle);
    }
    instruction_ = GoTo(Like(Any(things)));
  }

  const bool with_things_;
};

const Missions kGoToMissions = UpTo(kLongestGoTo);

const bool registered =
    RegisterKind({.description = "go to the red ball among grey things",
                  .missions = kGoToMissions,
                  .tasks = {{"BabyAI-GoToRedBallGrey-v0", New<GoToRedBall>(7, true)}}}) &&
    RegisterKind({.description = "go to a red ball among other things",
                  .missions = kGoToMissions,
                  .tasks = {{"BabyAI-GoToRedBall-v0", New<GoToRedBall>(7, false)}}}) &&
    RegisterKind({.description = "go to the red ball",
                  .missions = kGoToMissions,
                  .tasks = {{"BabyAI-GoToRedBallNoDists-v0", New<GoToRedBall>(0, false)}}}) &&
    RegisterKind({.description = "go to the one thing in a room",
                  .missions = kGoToMissions,
                  .tasks = {{"BabyAI-GoToObj-v0", New<GoToOneObject>(8)},
                            {"BabyAI-GoToObjS4-v0", New<GoToOneObject>(4)},
                            {"BabyAI-GoToObjS6-v1", New<GoToOneObject>(6)}}}) &&
    RegisterKind({.description = "go to one of the things in a room",
                  .missions = kGoToMissions,
                  .tasks = {{"BabyAI-GoToLocal-v0", New<GoToLocal>(8, 8)},
                            {"BabyAI-GoToLocalS5N2-v0", New<GoToLocal>(5, 2)},
                            {"BabyAI-GoToLocalS6N2-v0", New<GoToLocal>(6, 2)},
                            {"BabyAI-GoToLocalS6N3-v0", New<GoToLocal>(6, 3)},
                            {"BabyAI-GoToLocalS6N4-v0", New<GoToLocal>(6, 4)},
                            {"BabyAI-GoToLocalS7N4-v0", New<GoToLocal>(7, 4)},
                            {"BabyAI-GoToLocalS7N5-v0", New<GoToLocal>(7, 5)},
                            {"BabyAI-GoToLocalS8N2-v0", New<GoToLocal>(8, 2)},
                            {"BabyAI-GoToLocalS8N3-v0", New<GoToLocal>(8, 3)},
                            {"BabyAI-GoToLocalS8N4-v0", New<GoToLocal>(8, 4)},
                            {"BabyAI-GoToLocalS8N5-v0", New<GoToLocal>(8, 5)},
                            {"BabyAI-GoToLocalS8N6-v0", New<GoToLocal>(8, 6)},
                            {"BabyAI-GoToLocalS8N7-v0", New<GoToLocal>(8, 7)}}}) &&
    RegisterKind({.description = "go to a thing in a maze of rooms",
                  .missions = kGoToMissions,
                  .tasks = {{"BabyAI-GoTo-v0", New<GoToInMaze>(8, 3, 18, false)},
                            {"BabyAI-GoToOpen-v0", New<GoToInMaze>(8, 3, 18, true)},
                            {"BabyAI-GoToObjMaze-v0", New<GoToInMaze>(8, 3, 1, false)},
                            {"BabyAI-GoToObjMazeOpen-v0", New<GoToInMaze>(8, 3, 1, true)},
                            {"BabyAI-GoToObjMazeS4R2-v0", New<GoToInMaze>(4, 2, 1, false)},
                            {"BabyAI-GoToObjMazeS4-v0", New<GoToInMaze>(4, 3, 1, false)},
                            {"BabyAI-GoToObjMazeS5-v0", New<GoToInMaze>(5, 3, 1, false)},
                            {"BabyAI-GoToObjMazeS6-v0", New<GoToInMaze>(6, 3, 1, false)},
                            {"BabyAI-GoToObjMazeS7-v0", New<GoToInMaze>(7, 3, 1, false)}}}) &&
    RegisterKind({.description = "go to a thing in a locked room",
                  .missions = kGoToMissions,
                  .tasks = {{"BabyAI-GoToImpUnlock-v0", New<GoToLocked>()}}}) &&
    RegisterKind({.description = "go to the red or the blue ball",
                  .missions = kGoToMissions,
                  .tasks = {{"BabyAI-GoToRedBlueBall-v0", New<GoToRedBlueBall>()}}}) &&
    RegisterKind({.description = "go to a door",
                  .missions = kGoToMissions,
                  .tasks = {{"BabyAI-GoToDoor-v0", New<GoToOneDoor>(false)}}}) &&
    RegisterKind({.description = "go to a thing or to a door",
                  .missions = kGoToMissions,
                  .tasks = {{"BabyAI-GoToObjDoor-v0", New<GoToOneDoor>(true)}}});

}  // namespace
}  // namespace torchrl_pool::minigrid
