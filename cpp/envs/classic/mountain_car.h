// What both mountain cars share: the track, what is observed, and how it looks.
#ifndef TORCHRL_POOL_ENVS_CLASSIC_MOUNTAIN_CAR_H_
#define TORCHRL_POOL_ENVS_CLASSIC_MOUNTAIN_CAR_H_

#include <cmath>
#include <cstdint>

#include "canvas.h"
#include "reset_bounds.h"
#include "torchrl_pool/env.h"

namespace torchrl_pool::classic {

constexpr double kMinPosition = -1.2;
constexpr double kMaxPosition = 0.6;
constexpr double kMaxSpeed = 0.07;

struct MountainCarOptions {
  double goal_velocity = 0;
  ResetBounds bounds{-0.6, -0.4};

  template <class Visitor>
  void Visit(Visitor& visit) {
    visit("goal_velocity", goal_velocity, "least velocity at the goal");
    bounds.Visit(visit);
  }
  void Open() const { bounds.Open(); }
};

inline Spec CarObservation() {
  return Observation("observation", Box<float>({2}, {kMinPosition, -kMaxSpeed}, {kMaxPosition, kMaxSpeed}),
                     "position and velocity of the car");
}
inline void ObserveCar(const Row& row, double position, double velocity) {
  float* out = row.Out<float>();
  out[0] = static_cast<float>(position);
  out[1] = static_cast<float>(velocity);
}

constexpr ImageSize kMountainCarPicture{400, 600};

// The track as Gymnasium shows it: a sine that has its top at the goal.
inline void DrawMountainCar(std::uint8_t* rgb, double position, double goal) {
  Canvas canvas(rgb, kMountainCarPicture);
  const double scale = static_cast<double>(kMountainCarPicture.width) / (kMaxPosition - kMinPosition);
  const auto height = [](double x) { return std::sin(3 * x) * 0.45 + 0.55; };
  const auto at = [&](double x) { return Point{(x - kMinPosition) * scale, height(x) * scale}; };
  constexpr int kSegments = 100;
  for (int i = 0; i < kSegments; ++i) {
    const double step = (kMaxPosition - kMinPosition) / kSegments;
    canvas.Line(at(kMinPosition + i * step), at(kMinPosition + (i + 1) * step), 2, kBlack);
  }
  const Point flag = at(goal);
  canvas.Line(flag, {flag.x, flag.y + 50}, 2, kBlack);
  canvas.Polygon({{flag.x, flag.y + 50}, {flag.x, flag.y + 40}, {flag.x + 25, flag.y + 45}}, {204, 204, 0});

  const double slope = std::atan(std::cos(3 * position) * 3 * 0.45);
  const auto on_car = [&](double along, double up) {
    const Point car = at(position);
    return Point{car.x + along * std::cos(slope) - up * std::sin(slope),
                 car.y + along * std::sin(slope) + up * std::cos(slope)};
  };
  canvas.Polygon({on_car(-20, 10), on_car(20, 10), on_car(20, 30), on_car(-20, 30)}, kBlack);
  canvas.Circle(on_car(-10, 8), 8, kGrey);
  canvas.Circle(on_car(10, 8), 8, kGrey);
}

}  // namespace torchrl_pool::classic

#endif  // TORCHRL_POOL_ENVS_CLASSIC_MOUNTAIN_CAR_H_
