// What an agent sees of its world, and worlds as arrays of numbers.
#ifndef TORCHRL_POOL_ENVS_MINIGRID_VIEW_H_
#define TORCHRL_POOL_ENVS_MINIGRID_VIEW_H_

#include <array>
#include <cstdint>

#include "world.h"

namespace torchrl_pool::minigrid {

constexpr int kMaxView = 49;  // sees all of the largest grid from each of its cells

// The square before an agent, as it looks up from the middle of its lowest row; cells count column by column.
class View {
 public:
  View(const World& world, int side);

  int side() const { return side_; }
  int AgentCell() const { return side_ / 2 * side_ + side_ - 1; }
  bool IsSeen(int cell) const { return seen_[static_cast<std::size_t>(cell)]; }
  // The agent's own cell shows what it carries.
  Id Get(int cell) const { return cells_[static_cast<std::size_t>(cell)]; }
  // Where a cell lies in the world; maybe outside.
  Pos Place(int cell) const { return corner_ + right_ * (cell / side_) - ahead_ * (cell % side_); }

 private:
  void See(const World& world);

  const int side_;
  const Pos ahead_, right_, corner_;  // the first cell, in the world
  std::array<Id, kMaxView * kMaxView> cells_;
  std::array<bool, kMaxView * kMaxView> seen_;
};

// uint8 [side, side, 3]: type, color and state of what is seen.
void WritePartial(const World& world, int side, std::uint8_t* image);
// uint8 [width, height, 3]: all of it, with the agent: its type, red, its direction.
void WriteFull(const World& world, std::uint8_t* image);
// uint8 [side, side, 20]: as WritePartial, each of the three one-hot.
constexpr int kOneHot = kTypes + kColors + kStates;
void WriteOneHot(const World& world, int side, std::uint8_t* image);

}  // namespace torchrl_pool::minigrid

#endif  // TORCHRL_POOL_ENVS_MINIGRID_VIEW_H_
