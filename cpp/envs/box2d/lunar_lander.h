// What the lunar lander's picture shows.
#ifndef TORCHRL_POOL_ENVS_BOX2D_LUNAR_LANDER_H_
#define TORCHRL_POOL_ENVS_BOX2D_LUNAR_LANDER_H_

#include <Box2D/Box2D.h>

#include <array>
#include <cstdint>
#include <vector>

#include "torchrl_pool/env.h"

namespace torchrl_pool::box2d {

struct Lunar {
  static constexpr double kScale = 30.0, kViewWidth = 600, kViewHeight = 400;
  static constexpr double kWidth = kViewWidth / kScale, kHeight = kViewHeight / kScale;  // of the world
  static constexpr int kChunks = 11;
  static constexpr double kPadHeight = kHeight / 4;

  // Where the ground bends.
  static double ChunkX(int i) { return kWidth / (kChunks - 1) * i; }

  struct Particle {  // of an engine's flame
    b2Body* body;
    double lifetime;
  };
  std::array<double, kChunks> ground{};
  b2Body* lander = nullptr;
  std::array<b2Body*, 2> legs{};
  std::vector<Particle> particles;
};

constexpr ImageSize kLunarPicture{400, 600};
void DrawLunar(std::uint8_t* rgb, const Lunar& scene);

}  // namespace torchrl_pool::box2d

#endif  // TORCHRL_POOL_ENVS_BOX2D_LUNAR_LANDER_H_
