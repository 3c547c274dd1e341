// What the tasks share: Box2D's world, bodies and joints as pybox2d makes them.
#ifndef TORCHRL_POOL_ENVS_BOX2D_PHYSICS_H_
#define TORCHRL_POOL_ENVS_BOX2D_PHYSICS_H_

#include <Box2D/Box2D.h>

#include <cstdint>
#include <vector>

#include "torchrl_pool/error.h"

// The unused nodes of the tree that a world finds contacts with, the next to be taken first. In an empty
// world they are all that is left of the episodes before: fixtures' numbers, and by them the order of
// contacts, follow.
struct b2FreeNodes {
  static std::vector<std::int32_t> Of(const b2World& world);
  // Throws InvalidArgument where no empty world can have these.
  static void Set(b2World* world, const std::vector<std::int32_t>& nodes);
};

namespace torchrl_pool::box2d {

// Python's floats are doubles, Box2D's are not.
inline float F(double value) { return static_cast<float>(value); }
inline b2Vec2 Vector(double x, double y) { return b2Vec2(F(x), F(y)); }

constexpr float kTimeStep = static_cast<float>(1.0 / 50);
inline void Advance(b2World* world) { world->Step(kTimeStep, 6 * 30, 2 * 30); }

inline bool Touches(b2Contact* contact, const b2Body* body) {
  return contact->GetFixtureA()->GetBody() == body || contact->GetFixtureB()->GetBody() == body;
}

// A convex polygon from coordinates that are scaled in double precision.
template <std::size_t count>
b2PolygonShape Polygon(const int (&corners)[count][2], double scale) {
  b2Vec2 scaled[count];
  for (std::size_t i = 0; i < count; ++i) scaled[i] = Vector(corners[i][0] * scale, corners[i][1] * scale);
  b2PolygonShape shape;
  shape.Set(scaled, static_cast<int>(count));
  return shape;
}

// What touches the ground alone.
b2FixtureDef Part(const b2Shape& shape, double density, std::uint16_t category);

b2Body* AddBody(b2World* world, b2BodyType type, b2Vec2 position, float angle, const b2FixtureDef& fixture);

// A motor that turns within limits.
struct Motor {
  double torque, speed, lower, upper;
};
b2RevoluteJoint* AddJoint(b2World* world, b2Body* a, b2Body* b, b2Vec2 anchor_a, b2Vec2 anchor_b,
                          const Motor& motor);

}  // namespace torchrl_pool::box2d

#endif  // TORCHRL_POOL_ENVS_BOX2D_PHYSICS_H_
