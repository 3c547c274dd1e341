// What is walked on: by BipedalWalker, and by multiwalker of SISL.
#ifndef TORCHRL_POOL_ENVS_BOX2D_TERRAIN_H_
#define TORCHRL_POOL_ENVS_BOX2D_TERRAIN_H_

#include <Box2D/Box2D.h>

#include <array>
#include <cstddef>
#include <utility>
#include <vector>

#include "torchrl_pool/rng.h"

namespace torchrl_pool::box2d {

struct Walk {
  static constexpr double kScale = 30.0, kViewWidth = 600, kViewHeight = 400;
  static constexpr double kStep = 14 / kScale, kHeight = kViewHeight / kScale / 4;
  using Place = std::pair<double, double>;

  explicit Walk(std::size_t length) : ground(length), edges(length - 1), clouds(length / 20) {}

  std::vector<double> ground;      // its height, step by step
  std::vector<b2Body*> obstacles;  // stumps, stairs and pits, in the order in which they were made
  std::vector<b2Body*> edges;      // of the ground
  std::vector<std::array<Place, 5>> clouds;
};

void GenerateTerrain(b2World* world, Rng* rng, bool hardcore, Walk* walk);
void GenerateClouds(Rng* rng, Walk* walk);

}  // namespace torchrl_pool::box2d

#endif  // TORCHRL_POOL_ENVS_BOX2D_TERRAIN_H_
