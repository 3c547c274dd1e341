#include "car.h"

#include <algorithm>
#include <cmath>

#include "physics.h"

namespace torchrl_pool::box2d {
namespace {

constexpr double kSize = Car::kSize, kDt = 1.0 / 50;
constexpr double kEnginePower = 100000000 * kSize * kSize, kInertia = 4000 * kSize * kSize;
constexpr double kFriction = 1000000 * kSize * kSize, kGrip = 205000 * kSize * kSize;
constexpr double kRadius = 1.0 * Car::kWheelRadius * kSize;
constexpr int kWheelPlaces[4][2] = {{-55, 80}, {55, 80}, {-55, -82}, {55, -82}};

constexpr int kBumper[4][2] = {{-60, 130}, {60, 130}, {60, 110}, {-60, 110}};
constexpr int kNose[4][2] = {{-15, 120}, {15, 120}, {20, 20}, {-20, 20}};
constexpr int kCabin[8][2] = {{25, 20},   {50, -10},  {50, -40},  {20, -90},
                              {-20, -90}, {-50, -40}, {-50, -10}, {-25, 20}};
constexpr int kWing[4][2] = {{-50, -120}, {50, -120}, {50, -90}, {-50, -90}};

double Sign(double value) { return (value > 0) - (value < 0); }

}  // namespace

void Car::Create(b2World* world, double angle, double x, double y) {
  b2BodyDef body;
  body.type = b2_dynamicBody;
  body.position = Vector(x, y);
  body.angle = F(angle);
  hull_ = world->CreateBody(&body);
  for (const auto& part :
       {Polygon(kBumper, kSize), Polygon(kNose, kSize), Polygon(kCabin, kSize), Polygon(kWing, kSize)}) {
    hull_->CreateFixture(&part, 1);
  }
  constexpr int kCorners[4][2] = {{-kWheelWidth, Car::kWheelRadius},
                                  {kWheelWidth, Car::kWheelRadius},
                                  {kWheelWidth, -Car::kWheelRadius},
                                  {-kWheelWidth, -Car::kWheelRadius}};
  const b2PolygonShape shape = Polygon(kCorners, kSize);
  for (int i = 0; i < 4; ++i) {
    const double right = kWheelPlaces[i][0], up = kWheelPlaces[i][1];
    b2Body* wheel = AddBody(world, b2_dynamicBody, Vector(x + right * kSize, y + up * kSize), F(angle),
                            Part(shape, 0.1, 0x20));
    wheels_[i] = Wheel{};
    wheels_[i].body = wheel;
    wheels_[i].joint =
        AddJoint(world, hull_, wheel, Vector(right * kSize, up * kSize), Vector(0, 0),
                 {.torque = 180 * 900 * kSize * kSize, .speed = 0, .lower = -0.4, .upper = 0.4});
  }
  skid_marks_.clear();
}

void Car::Destroy(b2World* world) {
  world->DestroyBody(hull_);
  for (Wheel& wheel : wheels_) world->DestroyBody(wheel.body);
  hull_ = nullptr;
}

void Car::Control(double steer, double gas, double brake) {
  wheels_[0].steer = wheels_[1].steer = steer;
  gas = std::clamp(gas, 0.0, 1.0);
  for (int i = 2; i < 4; ++i) wheels_[i].gas += std::min(gas - wheels_[i].gas, 0.1);
  for (Wheel& wheel : wheels_) wheel.brake = brake;
}

void Car::Advance() {
  for (Wheel& w : wheels_) {
    const double turn = w.steer - static_cast<double>(w.joint->GetJointAngle());
    w.joint->SetMotorSpeed(F(Sign(turn) * std::min(50.0 * std::abs(turn), 3.0)));
    const double limit = w.tiles > 0 ? kFriction : kFriction * 0.6;
    const b2Vec2 ahead = w.body->GetWorldVector(b2Vec2(0, 1)), side = w.body->GetWorldVector(b2Vec2(1, 0));
    const b2Vec2 speed = w.body->GetLinearVelocity();
    const auto along = [&speed](const b2Vec2& way) {
      return static_cast<double>(way.x) * static_cast<double>(speed.x) +
             static_cast<double>(way.y) * static_cast<double>(speed.y);
    };
    w.omega += kDt * kEnginePower * w.gas / kInertia / (std::abs(w.omega) + 5.0);
    if (w.brake >= 0.9) {
      w.omega = 0;
    } else if (w.brake > 0) {
      w.omega += -Sign(w.omega) * std::min(15 * w.brake, std::abs(w.omega));
    }
    w.phase += w.omega * kDt;
    double forward = (-along(ahead) + w.omega * kRadius) * kGrip, sideways = -along(side) * kGrip;
    const double force = std::sqrt(forward * forward + sideways * sideways);
    if (force > 2.0 * limit) {
      Skid(&w);
    } else {
      w.is_skidding = false;
      w.skid_mark.reset();
    }
    if (force > limit) {
      forward = forward / force * limit;
      sideways = sideways / force * limit;
    }
    w.omega -= kDt * forward * kRadius / kInertia;
    w.body->ApplyForceToCenter(
        Vector(sideways * side.x + forward * ahead.x, sideways * side.y + forward * ahead.y), true);
  }
}

// The first two points of a mark are the same, as the reference's are.
void Car::Skid(Wheel* wheel) {
  constexpr std::size_t kMaxPoints = 30, kMaxMarks = 30;
  const bool on_grass = wheel->tiles == 0;
  const b2Vec2 position = wheel->body->GetPosition();
  auto& mark = wheel->skid_mark;
  if (mark && mark->on_grass == on_grass && mark->points.size() < kMaxPoints) {
    mark->points.push_back(position);
  } else if (!wheel->is_skidding) {
    wheel->is_skidding = true;
  } else {
    mark = std::make_shared<SkidMark>(SkidMark{on_grass, {position, position}});
    skid_marks_.push_back(mark);
    if (skid_marks_.size() > kMaxMarks) skid_marks_.pop_front();
    wheel->is_skidding = false;
  }
}

}  // namespace torchrl_pool::box2d
