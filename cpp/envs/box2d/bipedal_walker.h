// What the bipedal walker's picture shows.
#ifndef TORCHRL_POOL_ENVS_BOX2D_BIPEDAL_WALKER_H_
#define TORCHRL_POOL_ENVS_BOX2D_BIPEDAL_WALKER_H_

#include <Box2D/Box2D.h>

#include <cstdint>

#include "torchrl_pool/env.h"
#include "walker.h"

namespace torchrl_pool::box2d {

struct BipedalScene : Walk {
  static constexpr int kLength = 200;  // of the terrain, in steps

  BipedalScene() : Walk(kLength) {}
  double Scroll() const { return walker.hull->GetPosition().x - kViewWidth / kScale / 5; }

  Walker walker;
  int pictures = 0;  // since the reset, if every state is shown once
};

constexpr ImageSize kWalkPicture{400, 600};
void DrawWalk(std::uint8_t* rgb, const BipedalScene& scene, const b2World& world);

}  // namespace torchrl_pool::box2d

#endif  // TORCHRL_POOL_ENVS_BOX2D_BIPEDAL_WALKER_H_
