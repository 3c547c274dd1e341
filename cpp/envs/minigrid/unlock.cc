// Two rooms and a locked door between them; behind it, perhaps, a box, and before it a ball.
// Reference: minigrid/envs/unlock.py, unlockpickup.py, blockedunlockpickup.py.
#include "room_grid.h"
#include "task.h"

namespace torchrl_pool::minigrid {
namespace {

constexpr int kUnlockedRoom = 6;

class Unlock : public RoomGrid {
 public:
  Unlock() : RoomGrid(kUnlockedRoom, 1, 2, 8 * kUnlockedRoom * kUnlockedRoom) {}

  Outcome Step(int action) override {
    const Outcome outcome = World::Step(action);
    if (action != kToggle || things_[target_].state != kOpen) return outcome;
    return {.reward = Reward(), .terminated = true, .truncated = outcome.truncated};
  }

 private:
  void Generate() override {
    RoomGrid::Generate();
    Room& room = RoomAt(0, 0);
    target_ = AddDoor(room, kRightSide, true);
    AddObject(room, kKey, things_[target_].color);
    PlaceAgentIn(room);
    mission_ = "open the door";
  }
};

class UnlockPickup : public RoomGrid {
 public:
  explicit UnlockPickup(bool blocked)
      : RoomGrid(kUnlockedRoom, 1, 2, (blocked ? 16 : 8) * kUnlockedRoom * kUnlockedRoom),
        blocked_(blocked) {}

  Outcome Step(int action) override { return EndOncePickedUp(action); }

 private:
  void Generate() override {
    RoomGrid::Generate();
    Room& room = RoomAt(0, 0);
    target_ = AddObject(RoomAt(1, 0), kBox);
    const Id door = AddDoor(room, kRightSide, true);
    if (blocked_) Set(things_[door].at - Pos{1, 0}, Make(kBall, AnyColor()));
    AddObject(room, kKey, things_[door].color);
    PlaceAgentIn(room);
    mission_ = "pick up the " + NameOf(things_[target_]);
  }

  const bool blocked_;
};

const bool registered =
    RegisterKind({.description = "open a locked door",
                  .missions = EachOf("open the door"),
                  .tasks = {{"MiniGrid-Unlock-v0", New<Unlock>()}}}) &&
    RegisterKind({.description = "pick up a box behind a locked door",
                  .missions = EachOf("pick up the {} box", {ColorsByName()}),
                  .tasks = {{"MiniGrid-UnlockPickup-v0", New<UnlockPickup>(false)}}}) &&
    RegisterKind({.description = "pick up a box behind a locked door that is blocked",
                  .missions = EachOf("pick up the {} {}", {ColorsByName(), {"box", "key"}}),
                  .tasks = {{"MiniGrid-BlockedUnlockPickup-v0", New<UnlockPickup>(true)}}});

}  // namespace
}  // namespace torchrl_pool::minigrid
