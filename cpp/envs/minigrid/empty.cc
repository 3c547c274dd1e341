// An empty room, with a goal in its corner. Reference: minigrid/envs/empty.py.
#include "task.h"

namespace torchrl_pool::minigrid {
namespace {

class Empty : public World {
 public:
  Empty(int size, bool random_start)
      : World({size, size}, 4 * size * size, true), random_start_(random_start) {}

 private:
  void Generate() override {
    ClearRoom();
    Put(Make(kGoal, kGreen), {size_.width - 2, size_.height - 2});
    if (random_start_) {
      PlaceAgent();
    } else {
      PutAgent({1, 1});
    }
    mission_ = "get to the green goal square";
  }

  const bool random_start_;
};

const bool registered = RegisterKind({.description = "reach a goal in an empty room",
                                      .missions = EachOf("get to the green goal square"),
                                      .tasks = {{"MiniGrid-Empty-5x5-v0", New<Empty>(5, false)},
                                                {"MiniGrid-Empty-Random-5x5-v0", New<Empty>(5, true)},
                                                {"MiniGrid-Empty-6x6-v0", New<Empty>(6, false)},
                                                {"MiniGrid-Empty-Random-6x6-v0", New<Empty>(6, true)},
                                                {"MiniGrid-Empty-8x8-v0", New<Empty>(8, false)},
                                                {"MiniGrid-Empty-16x16-v0", New<Empty>(16, false)}}});

}  // namespace
}  // namespace torchrl_pool::minigrid
