// Two strips of lava, of which the lower lies elsewhere in the second task. Reference:
// minigrid/envs/distshift.py.
#include "task.h"

namespace torchrl_pool::minigrid {
namespace {

class DistShift : public World {
 public:
  explicit DistShift(int second_row) : World({9, 7}, 4 * 9 * 7, true), second_row_(second_row) {}

 private:
  void Generate() override {
    ClearRoom();
    Put(Make(kGoal, kGreen), {size_.width - 2, 1});
    const Id lava = Make(kLava, kRed);
    for (const int row : {1, second_row_}) HorizontalWall(3, row, size_.width - 6, lava);
    PutAgent({1, 1});
    mission_ = "get to the green goal square";
  }

  const int second_row_;
};

const bool registered = RegisterKind({.description = "reach a goal past strips of lava",
                                      .missions = EachOf("get to the green goal square"),
                                      .tasks = {{"MiniGrid-DistShift1-v0", New<DistShift>(2)},
                                                {"MiniGrid-DistShift2-v0", New<DistShift>(5)}}});

}  // namespace
}  // namespace torchrl_pool::minigrid
