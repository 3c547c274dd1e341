// A wall of lava with a gap. Reference: minigrid/envs/lavagap.py.
#include "task.h"

namespace torchrl_pool::minigrid {
namespace {

const std::string kLavaGapMission = "avoid the lava and get to the green goal square";

class LavaGap : public World {
 public:
  explicit LavaGap(int size) : World({size, size}, 4 * size * size, false) {}

 private:
  void Generate() override {
    ClearRoom();
    PutAgent({1, 1});
    Put(Make(kGoal, kGreen), {size_.width - 2, size_.height - 2});
    const int x = Int(2, size_.width - 2), y = Int(1, size_.height - 1);
    VerticalWall(x, 1, size_.height - 2, Make(kLava, kRed));
    Set({x, y}, kNothing);
    mission_ = kLavaGapMission;
  }
};

const bool registered = RegisterKind({.description = "reach a goal through a gap in the lava",
                                      .missions = EachOf(kLavaGapMission),
                                      .tasks = {{"MiniGrid-LavaGapS5-v0", New<LavaGap>(5)},
                                                {"MiniGrid-LavaGapS6-v0", New<LavaGap>(6)},
                                                {"MiniGrid-LavaGapS7-v0", New<LavaGap>(7)}}});

}  // namespace
}  // namespace torchrl_pool::minigrid
