// Two rooms, a locked door between them, and its key. Reference: minigrid/envs/doorkey.py.
#include "task.h"

namespace torchrl_pool::minigrid {
namespace {

const std::string kDoorKeyMission = "use the key to open the door and then get to the goal";

class DoorKey : public World {
 public:
  explicit DoorKey(int size) : World({size, size}, 10 * size * size, false) {}

 private:
  void Generate() override {
    ClearRoom();
    Put(Make(kGoal, kGreen), {size_.width - 2, size_.height - 2});
    const int split = Int(2, size_.width - 2);
    VerticalWall(split, 0, size_.height);
    PlaceAgent({0, 0}, {split, size_.height});
    Put(Make(kDoor, kYellow, kLocked), {split, Int(1, size_.height - 2)});
    Place(Make(kKey, kYellow), {0, 0}, {split, size_.height});
    mission_ = kDoorKeyMission;
  }
};

const bool registered =
    RegisterKind({.description = "unlock a door with its key and reach the goal behind it",
                  .missions = EachOf(kDoorKeyMission),
                  .tasks = {{"MiniGrid-DoorKey-5x5-v0", New<DoorKey>(5)},
                            {"MiniGrid-DoorKey-6x6-v0", New<DoorKey>(6)},
                            {"MiniGrid-DoorKey-8x8-v0", New<DoorKey>(8)},
                            {"MiniGrid-DoorKey-16x16-v0", New<DoorKey>(16)}}});

}  // namespace
}  // namespace torchrl_pool::minigrid
