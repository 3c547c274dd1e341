// minigrid's pictures: what each thing looks like, and worlds made of that.
// Reference: minigrid/core/world_object.py, minigrid/utils/rendering.py, Grid.render.
#ifndef TORCHRL_POOL_ENVS_MINIGRID_TILES_H_
#define TORCHRL_POOL_ENVS_MINIGRID_TILES_H_

#include <cstdint>
#include <vector>

#include "world.h"

namespace torchrl_pool::minigrid {

constexpr int kMaxTileSize = 64;

// All tiles of one size, each drawn once.
class Tiles {
 public:
  // Of the whole process; drawn by the first who asks.
  static const Tiles& Of(int size);

  // The world, with what the agent sees of it lit up: uint8 [height * size, width * size, 3].
  void DrawFull(const World& world, int view, std::uint8_t* rgb) const;
  // What the agent sees: uint8 [view * size, view * size, 3].
  void DrawPartial(const World& world, int view, std::uint8_t* rgb) const;

 private:
  explicit Tiles(int size);
  const std::uint8_t* Get(const World& world, Id id, int direction, bool lit) const;
  void Copy(const std::uint8_t* tile, int column, int row, int columns, std::uint8_t* rgb) const;

  const int size_;  // pixels
  std::vector<std::uint8_t> pixels_;
};

}  // namespace torchrl_pool::minigrid

#endif  // TORCHRL_POOL_ENVS_MINIGRID_TILES_H_
