// What the bipedal walker's picture shows.
#ifndef TORCHRL_POOL_ENVS_BOX2D_BIPEDAL_WALKER_H_
#define TORCHRL_POOL_ENVS_BOX2D_BIPEDAL_WALKER_H_

#include <Box2D/Box2D.h>

#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "torchrl_pool/env.h"

namespace torchrl_pool::box2d {

struct Walk {
  static constexpr double kScale = 30.0, kViewWidth = 600, kViewHeight = 400;
  static constexpr int kLength = 200;  // of the terrain, in steps
  static constexpr double kStep = 14 / kScale, kHeight = kViewHeight / kScale / 4;
  static constexpr double kLidarRange = 160 / kScale;
  static constexpr int kRays = 10, kClouds = kLength / 20;
  using Place = std::pair<double, double>;

  std::array<double, kLength> ground{};
  std::vector<b2Body*> obstacles;            // stumps, stairs and pits, in the order in which they were made
  std::array<b2Body*, kLength - 1> edges{};  // of the ground
  std::array<std::array<Place, 5>, kClouds> clouds{};
  b2Body* hull = nullptr;
  std::array<b2Body*, 4> legs{};  // upper and lower, of the one and of the other
  int pictures = 0;               // since the reset, if every state is shown once

  double Scroll() const { return hull->GetPosition().x - kViewWidth / kScale / 5; }
};

// The ray of the lidar with this number, from `from` to `to`; where it ends, as a fraction and, if it hits
// the ground, as a point.
struct LidarRay : b2RayCastCallback {
  LidarRay(const b2World& world, const b2Vec2& from, int number);
  float32 ReportFixture(b2Fixture* fixture, const b2Vec2& point, const b2Vec2&, float32 where) override;

  double fraction = 1;
  Walk::Place end;
};

constexpr ImageSize kWalkPicture{400, 600};
void DrawWalk(std::uint8_t* rgb, const Walk& scene, const b2World& world);

}  // namespace torchrl_pool::box2d

#endif  // TORCHRL_POOL_ENVS_BOX2D_BIPEDAL_WALKER_H_
