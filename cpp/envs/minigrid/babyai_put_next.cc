// Levels about putting a thing next to another. Reference: minigrid/envs/babyai/putnext.py, MoveTwoAcross.
#include "babyai_level.h"
#include "task.h"

namespace torchrl_pool::minigrid {
namespace {

class PutNextLocal : public Level {
 public:
  PutNextLocal(int room_size, int things) : Level(room_size, 1, 1), count_(things) {}

 private:
  void GenerateMission() override {
    PlaceAgentAnywhere();
    const auto things = AddDistractors(nullptr, count_);
    RequireReachable();
    const auto two = Subset(things, 2);
    instruction_ = PutNext(Like(two[0]), Like(two[1]));
  }

  const int count_;
};

// From one half of a large room to the other.
class PutNextAcross : public Level {
 public:
  PutNextAcross(int room_size, int things, bool starts_carrying)
      : Level(room_size, 1, 2, 8 * room_size * room_size),
        count_(things),
        starts_carrying_(starts_carrying) {}

 private:
  // The first observation shows the thing still where it lay.
  void Begin() override {
    if (!starts_carrying_) return;
    Set(things_[target_].at, kNothing);
    carrying_ = target_;
  }

  void GenerateMission() override {
    PlaceAgentIn(RoomAt(0, 0));
    const auto left = AddDistractors(&RoomAt(0, 0), count_), right = AddDistractors(&RoomAt(1, 0), count_);
    RemoveWall(RoomAt(0, 0), kRightSide);
    Id moved = Any(left), other = Any(right);
    if (Bool()) std::swap(moved, other);
    target_ = moved;
    instruction_ = PutNext(Like(moved), Like(other));
  }

  const int count_;
  const bool starts_carrying_;
};

class MoveTwoAcross : public Level {
 public:
  MoveTwoAcross(int room_size, int things)
      : Level(room_size, 1, 2, 16 * room_size * room_size), count_(things) {}

 private:
  void GenerateMission() override {
    PlaceAgentIn(RoomAt(0, 0));
    auto left = AddDistractors(&RoomAt(0, 0), count_), right = AddDistractors(&RoomAt(1, 0), count_);
    RemoveWall(RoomAt(0, 0), kRightSide);
    left = Subset(left, 2);
    right = Subset(right, 2);
    instruction_ = {
        {PutNext(Like(left[0]), Like(right[0]))}, {PutNext(Like(right[1]), Like(left[1]))}, false};
  }

  const int count_;
};

const Missions kOne = UpTo(kLongestPutNext), kTwo = UpTo(2 * kLongestPutNext + 7);  // ", then "

const bool registered =
    RegisterKind({.description = "put a thing next to another in a room",
                  .missions = kOne,
                  .tasks = {{"BabyAI-PutNextLocal-v0", New<PutNextLocal>(8, 8)},
                            {"BabyAI-PutNextLocalS5N3-v0", New<PutNextLocal>(5, 3)},
                            {"BabyAI-PutNextLocalS6N4-v0", New<PutNextLocal>(6, 4)}}}) &&
    RegisterKind({.description = "put a thing next to another across a large room",
                  .missions = kOne,
                  .tasks = {{"BabyAI-PutNextS4N1-v0", New<PutNextAcross>(4, 1, false)},
                            {"BabyAI-PutNextS5N2-v0", New<PutNextAcross>(5, 2, false)},
                            {"BabyAI-PutNextS5N1-v0", New<PutNextAcross>(5, 1, false)},
                            {"BabyAI-PutNextS6N3-v0", New<PutNextAcross>(6, 3, false)},
                            {"BabyAI-PutNextS7N4-v0", New<PutNextAcross>(7, 4, false)},
                            {"BabyAI-PutNextS5N2Carrying-v0", New<PutNextAcross>(5, 2, true)},
                            {"BabyAI-PutNextS6N3Carrying-v0", New<PutNextAcross>(6, 3, true)},
                            {"BabyAI-PutNextS7N4Carrying-v0", New<PutNextAcross>(7, 4, true)}}}) &&
    RegisterKind({.description = "put two things next to others across a large room",
                  .missions = kTwo,
                  .tasks = {{"BabyAI-MoveTwoAcrossS5N2-v0", New<MoveTwoAcross>(5, 2)},
                            {"BabyAI-MoveTwoAcrossS8N9-v0", New<MoveTwoAcross>(8, 9)}}});

}  // namespace
}  // namespace torchrl_pool::minigrid
