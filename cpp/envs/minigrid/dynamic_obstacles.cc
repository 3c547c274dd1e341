// Balls roll about; none must be run into. Reference: minigrid/envs/dynamicobstacles.py.
#include "task.h"

namespace torchrl_pool::minigrid {
namespace {

constexpr int kTries = 100;

class DynamicObstacles : public World {
 public:
  DynamicObstacles(int size, bool random_start, int balls)
      : World({size, size}, 4 * size * size, true), random_start_(random_start), balls_(balls) {}

  Outcome Step(int action) override {
    const Id front = Contains(Front()) ? Get(Front()) : kNothing;
    const bool is_blocked = front != kNothing && things_[front].type != kGoal;
    for (int i = 0; i < balls_; ++i) Roll(static_cast<Id>(kFirstBall + i));
    const Outcome outcome = World::Step(action);
    if (action != kForward || !is_blocked) return outcome;
    return {.reward = -1, .terminated = true, .truncated = outcome.truncated};
  }

 private:
  static constexpr Id kFirstBall = 3;  // behind walls and goal

  void Generate() override {
    ClearRoom();
    Put(Make(kGoal, kGreen), {size_.width - 2, size_.height - 2});
    if (random_start_) {
      PlaceAgent();
    } else {
      PutAgent({1, 1});
    }
    for (int i = 0; i < balls_; ++i) Place(Make(kBall, kBlue), {0, 0}, size_, kTries);
    mission_ = "get to the green goal square";
  }

  void Roll(Id ball) {
    const Pos old = things_[ball].at;
    try {
      Place(ball, old - Pos{1, 1}, {3, 3}, kTries);
      Set(old, kNothing);
    } catch (const TooManyTries&) {  // it stays
    }
  }

  void CheckMore() const override {
    for (std::size_t ball = kFirstBall; ball < things_.size(); ++ball) {
      if (!Contains(things_[ball].at)) throw InvalidArgument("corrupt saved state: a ball has no position");
    }
    const auto all = static_cast<std::size_t>(kFirstBall + balls_);
    const bool is_new = things_.size() == 2;  // before the first reset
    if (things_.size() != all && !is_new)
      throw InvalidArgument("corrupt saved state: a value is out of its range");
  }

  const bool random_start_;
  const int balls_;
};

const bool registered =
    RegisterKind({.description = "reach a goal between balls that roll about",
                  .missions = EachOf("get to the green goal square"),
                  .tasks = {{"MiniGrid-Dynamic-Obstacles-5x5-v0", New<DynamicObstacles>(5, false, 2)},
                            {"MiniGrid-Dynamic-Obstacles-Random-5x5-v0", New<DynamicObstacles>(5, true, 2)},
                            {"MiniGrid-Dynamic-Obstacles-6x6-v0", New<DynamicObstacles>(6, false, 3)},
                            {"MiniGrid-Dynamic-Obstacles-Random-6x6-v0", New<DynamicObstacles>(6, true, 3)},
                            {"MiniGrid-Dynamic-Obstacles-8x8-v0", New<DynamicObstacles>(8, false, 4)},
                            {"MiniGrid-Dynamic-Obstacles-16x16-v0", New<DynamicObstacles>(16, false, 8)}},
                  .actions = kForward + 1});

}  // namespace
}  // namespace torchrl_pool::minigrid
