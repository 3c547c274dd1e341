// Look at a thing, then choose the end of a hallway with its like. Reference: minigrid/envs/memory.py.
#include "task.h"

namespace torchrl_pool::minigrid {
namespace {

const std::string kMemoryMission = "go to the matching object at the end of the hallway";
constexpr Type kRemembered[] = {kKey, kBall};

class Memory : public World {
 public:
  Memory(int size, bool random_length)
      : World({size, size}, 5 * size * size, false), random_length_(random_length) {}

  Outcome Step(int action) override {
    Outcome outcome = World::Step(action == kPickup ? kToggle : action);
    const Pos other_end{place_.x, size_.height - 1 - place_.y};
    if (agent_ == place_) outcome = {.reward = Reward(), .terminated = true, .truncated = outcome.truncated};
    if (agent_ == other_end) outcome = {.reward = 0, .terminated = true, .truncated = outcome.truncated};
    return outcome;
  }

 private:
  void Generate() override {
    ClearRoom();
    const int middle = size_.height / 2, upper = middle - 2, lower = middle + 2;
    const int end = random_length_ ? Int(4, size_.width - 2) : size_.width - 3;  // of the hallway
    HorizontalWall(1, upper, 4);
    HorizontalWall(1, lower, 4);
    for (const int y : {middle - 1, middle + 1}) {
      Set({4, y}, kGreyWall);
      HorizontalWall(5, y, end - 5);
    }
    VerticalWall(end, 0, size_.height);
    Set({end, middle}, kNothing);
    VerticalWall(end + 2, 0, size_.height);
    PutAgent({Int(1, end + 1), middle});
    const Type shown = Any(kRemembered);
    Set({1, middle - 1}, Make(shown, kGreen));
    const Type at_upper_end = Bool() ? kBall : kKey;
    Set({end + 1, upper}, Make(at_upper_end, kGreen));
    Set({end + 1, lower}, Make(at_upper_end == kBall ? kKey : kBall, kGreen));
    place_ = {end + 1, shown == at_upper_end ? upper + 1 : lower - 1};
    mission_ = kMemoryMission;
  }

  const bool random_length_;
};

const bool registered = RegisterKind({.description = "remember a thing and go to its like",
                                      .missions = EachOf(kMemoryMission),
                                      .tasks = {{"MiniGrid-MemoryS17Random-v0", New<Memory>(17, true)},
                                                {"MiniGrid-MemoryS13Random-v0", New<Memory>(13, true)},
                                                {"MiniGrid-MemoryS13-v0", New<Memory>(13, false)},
                                                {"MiniGrid-MemoryS11-v0", New<Memory>(11, false)},
                                                {"MiniGrid-MemoryS9-v0", New<Memory>(9, false)},
                                                {"MiniGrid-MemoryS7-v0", New<Memory>(7, false)}}});

}  // namespace
}  // namespace torchrl_pool::minigrid
