// Who walks: one in BipedalWalker, several in multiwalker of SISL.
#ifndef TORCHRL_POOL_ENVS_BOX2D_WALKER_H_
#define TORCHRL_POOL_ENVS_BOX2D_WALKER_H_

#include <Box2D/Box2D.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "terrain.h"

namespace torchrl_pool::box2d {

using TorqueOfJoints = std::array<float, 4>;

struct Walker {
  static constexpr int kHipSpeed = 4, kKneeSpeed = 6, kTorque = 80;
  static constexpr double kLegHeight = 34 / Walk::kScale, kFirstX = Walk::kStep * 20 / 2;
  static constexpr int kRays = 10, kNumbers = 14 + kRays;  // what it observes

  // Adds its bodies, standing at x, one of which is pushed to the side.
  void Begin(b2World* world, double x, double push, const b2Filter& filter);
  // Removes them: then there is no hull.
  void End(b2World* world);

  static float Strength(float torque) { return std::min(std::abs(torque), 1.0f); }
  void Act(const TorqueOfJoints& torques) const;
  // Returns where what it has written ends.
  float* Observe(const b2World& world, float* out);
  // Says of the legs that are part of a contact whether they touch.
  void SetContact(b2Contact* contact, bool value);

  b2Body* hull = nullptr;
  std::array<b2Body*, 4> legs{};  // upper and lower, of the one and of the other
  std::array<b2RevoluteJoint*, 4> joints{};
  std::array<bool, 2> contact{};  // of the lower legs
  // Of the lidar, when it observed last.
  b2Vec2 eye{0, 0};
  std::array<Walk::Place, kRays> ray_ends{};
};

}  // namespace torchrl_pool::box2d

#endif  // TORCHRL_POOL_ENVS_BOX2D_WALKER_H_
