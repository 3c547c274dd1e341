// A car seen from above: a hull and four wheels that slide on what they touch.
// Reference: gymnasium/envs/box2d/car_dynamics.py, after Chris Campbell's tutorial.
#ifndef TORCHRL_POOL_ENVS_BOX2D_CAR_H_
#define TORCHRL_POOL_ENVS_BOX2D_CAR_H_

#include <Box2D/Box2D.h>

#include <array>
#include <deque>
#include <memory>
#include <vector>

namespace torchrl_pool::box2d {

struct SkidMark {
  bool on_grass;
  std::vector<b2Vec2> points;
};

class Car {
 public:
  static constexpr double kSize = 0.02;
  static constexpr int kWheelWidth = 14, kWheelRadius = 27;  // times kSize

  struct Wheel {
    b2Body* body = nullptr;
    b2RevoluteJoint* joint = nullptr;
    double gas = 0, brake = 0, steer = 0, phase = 0, omega = 0;
    int tiles = 0;                        // how many it touches
    bool is_skidding = false;             // since the last step
    std::shared_ptr<SkidMark> skid_mark;  // that it goes on with
  };

  void Create(b2World* world, double angle, double x, double y);
  void Destroy(b2World* world);
  void Control(double steer, double gas, double brake);
  // Steers, and applies the wheels' forces for one time step.
  void Advance();

  const b2Body* hull() const { return hull_; }
  std::array<Wheel, 4>& wheels() { return wheels_; }
  const std::array<Wheel, 4>& wheels() const { return wheels_; }
  const std::deque<std::shared_ptr<SkidMark>>& skid_marks() const { return skid_marks_; }

 private:
  void Skid(Wheel* wheel);

  b2Body* hull_ = nullptr;
  std::array<Wheel, 4> wheels_;
  std::deque<std::shared_ptr<SkidMark>> skid_marks_;  // the last of them
};

}  // namespace torchrl_pool::box2d

#endif  // TORCHRL_POOL_ENVS_BOX2D_CAR_H_
