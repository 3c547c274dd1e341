#include "walker.h"

#include "physics.h"

namespace torchrl_pool::box2d {

namespace {

// The ray of the lidar with this number: where it ends, as a fraction and, if it hits something, as a point.
struct LidarRay : b2RayCastCallback {
  static constexpr double kRange = 160 / Walk::kScale;

  LidarRay(const b2World& world, const b2Vec2& from, int number) {
    const double x = from.x, y = from.y, angle = 1.5 * number / 10.0;
    end = {x + std::sin(angle) * kRange, y - std::cos(angle) * kRange};
    world.RayCast(this, from, Vector(end.first, end.second));
  }
  float32 ReportFixture(b2Fixture* fixture, const b2Vec2& point, const b2Vec2&, float32 where) override {
    if ((fixture->GetFilterData().categoryBits & 1) == 0) return -1;  // BipedalWalker's own, or a package
    fraction = where;
    end = {point.x, point.y};
    return where;
  }

  double fraction = 1;
  Walk::Place end;
};

}  // namespace

void Walker::Begin(b2World* world, double x, double push, const b2Filter& filter) {
  constexpr double kLegDown = -8 / Walk::kScale, kLegWidth = 8 / Walk::kScale;
  const double y = Walk::kHeight + 2 * kLegHeight;
  const auto part = [&filter](const b2Shape& shape, double density) {
    b2FixtureDef fixture = Part(shape, density, 0);
    fixture.filter = filter;
    return fixture;
  };
  constexpr int kCorners[5][2] = {{-30, 9}, {6, 9}, {34, 1}, {34, -8}, {-30, -8}};
  b2Vec2 corners[5];
  for (int i = 0; i < 5; ++i)
    corners[i] = Vector(kCorners[i][0] / Walk::kScale, kCorners[i][1] / Walk::kScale);
  b2PolygonShape shape;
  shape.Set(corners, 5);
  b2FixtureDef body = part(shape, 5);
  body.friction = F(0.1);
  hull = AddBody(world, b2_dynamicBody, Vector(x, y), 0, body);
  hull->ApplyForceToCenter(Vector(push, 0), true);
  b2PolygonShape upper, lower;
  upper.SetAsBox(F(kLegWidth / 2), F(kLegHeight / 2));
  lower.SetAsBox(F(0.8 * kLegWidth / 2), F(kLegHeight / 2));
  for (const int leg : {0, 1}) {
    const int side = leg == 0 ? -1 : 1;
    const float angle = F(side * 0.05);
    b2Body* thigh =
        AddBody(world, b2_dynamicBody, Vector(x, y - kLegHeight / 2 - kLegDown), angle, part(upper, 1));
    joints[2 * leg] =
        AddJoint(world, hull, thigh, Vector(0, kLegDown), Vector(0, kLegHeight / 2),
                 {.torque = kTorque, .speed = static_cast<double>(side), .lower = -0.8, .upper = 1.1});
    b2Body* shin =
        AddBody(world, b2_dynamicBody, Vector(x, y - kLegHeight * 3 / 2 - kLegDown), angle, part(lower, 1));
    joints[2 * leg + 1] = AddJoint(world, thigh, shin, Vector(0, -kLegHeight / 2), Vector(0, kLegHeight / 2),
                                   {.torque = kTorque, .speed = 1, .lower = -1.6, .upper = -0.1});
    legs[2 * leg] = thigh;
    legs[2 * leg + 1] = shin;
  }
  contact = {};
}

void Walker::End(b2World* world) {
  world->DestroyBody(hull);
  for (b2Body* leg : legs) world->DestroyBody(leg);
  hull = nullptr;
  legs = {};
}

void Walker::Act(const TorqueOfJoints& torques) const {
  for (int i = 0; i < 4; ++i) {
    const int speed = i % 2 == 0 ? kHipSpeed : kKneeSpeed;
    const float torque = torques[i];
    const float way = std::isnan(torque) ? torque : static_cast<float>((torque > 0) - (torque < 0));
    joints[i]->SetMotorSpeed(static_cast<float>(speed) * way);
    joints[i]->SetMaxMotorTorque(static_cast<float>(kTorque) * Strength(torque));
  }
}

float* Walker::Observe(const b2World& world, float* out) {
  const b2Vec2 position = hull->GetPosition(), velocity = hull->GetLinearVelocity();
  *out++ = hull->GetAngle();
  *out++ = F(2.0 * hull->GetAngularVelocity() / 50);
  *out++ = F(0.3 * velocity.x * (Walk::kViewWidth / Walk::kScale) / 50);
  *out++ = F(0.3 * velocity.y * (Walk::kViewHeight / Walk::kScale) / 50);
  for (int leg = 0; leg < 2; ++leg) {
    const b2RevoluteJoint *hip = joints[2 * leg], *knee = joints[2 * leg + 1];
    *out++ = hip->GetJointAngle();
    *out++ = F(static_cast<double>(hip->GetJointSpeed()) / kHipSpeed);
    *out++ = F(knee->GetJointAngle() + 1.0);
    *out++ = F(static_cast<double>(knee->GetJointSpeed()) / kKneeSpeed);
    *out++ = contact[leg] ? 1.0f : 0.0f;
  }
  eye = position;
  for (int i = 0; i < kRays; ++i) {
    const LidarRay ray(world, eye, i);
    ray_ends[i] = ray.end;
    *out++ = F(ray.fraction);
  }
  return out;
}

void Walker::SetContact(b2Contact* found, bool value) {
  for (int leg = 0; leg < 2; ++leg) {
    if (Touches(found, legs[2 * leg + 1])) contact[leg] = value;
  }
}

}  // namespace torchrl_pool::box2d
