// What both mountain cars share: the track, what is observed, and how it looks.
#ifndef TORCHRL_POOL_ENVS_CLASSIC_MOUNTAIN_CAR_H_
#define TORCHRL_POOL_ENVS_CLASSIC_MOUNTAIN_CAR_H_

#include <cmath>
#include <cstdint>
#include <vector>

#include "canvas.h"
#include "numpy_math.h"
#include "reset_bounds.h"
#include "torchrl_pool/env.h"

namespace torchrl_pool::classic {

using pictures::Canvas;
using pictures::Corners;
using pictures::kBlack;
using pictures::kWhite;
using pictures::Point;
using pictures::Rotated;
using pictures::RotatedRectangle;

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
                     "car position, car velocity");
}
inline void ObserveCar(const Row& row, double position, double velocity) {
  float* out = row.Out<float>();
  out[0] = static_cast<float>(position);
  out[1] = static_cast<float>(velocity);
}

constexpr ImageSize kMountainCarPicture{400, 600};

inline float NumpySin(float x) { return SinFloat32(x); }
inline double NumpySin(double x) { return std::sin(x); }

// The track, the car and the goal's flag. Real: the type of the reference's state, in which it computes.
template <class Real>
void DrawMountainCar(std::uint8_t* rgb, Real position, double goal) {
  Canvas canvas(rgb, kMountainCarPicture, kWhite);
  const double scale = static_cast<double>(kMountainCarPicture.width) / (kMaxPosition - kMinPosition);
  const auto height = []<class T>(T x) {
    return NumpySin(T{3} * x) * static_cast<T>(0.45) + static_cast<T>(0.55);
  };
  constexpr int kPoints = 100;
  std::vector<Point> track;
  for (int i = 0; i < kPoints; ++i) {
    const double x =
        i == kPoints - 1 ? kMaxPosition : i * ((kMaxPosition - kMinPosition) / (kPoints - 1)) + kMinPosition;
    track.push_back({(x - kMinPosition) * scale, height(x) * scale});
  }
  canvas.SmoothLines(track, kBlack, false);

  const double slope = std::cos(static_cast<double>(Real{3} * position));
  const Real x = (position - static_cast<Real>(kMinPosition)) * static_cast<Real>(scale);
  const Real y = height(position) * static_cast<Real>(scale);
  const auto on_car = [&](Point point) {
    return Point{static_cast<double>(static_cast<Real>(point.x) + x),
                 static_cast<double>(static_cast<Real>(point.y + 10) + y)};
  };
  Corners body = RotatedRectangle({-20, 0}, {20, 20}, slope);
  for (Point& corner : body) corner = on_car(corner);
  canvas.Polygon(body, kBlack);
  for (const double wheel : {10.0, -10.0})
    canvas.Circle(on_car(Rotated({wheel, 0}, slope)), 8, {128, 128, 128});

  const auto flag_x = static_cast<std::int64_t>((goal - kMinPosition) * scale);
  const auto flag_y = static_cast<std::int64_t>(height(goal) * scale);
  canvas.VerticalLine(flag_x, flag_y, flag_y + 50, kBlack);
  const auto left = static_cast<double>(flag_x), top = static_cast<double>(flag_y + 50);
  canvas.Polygon({{left, top}, {left, top - 10}, {left + 25, top - 5}}, {204, 204, 0});
  canvas.FlipUpDown();
}

}  // namespace torchrl_pool::classic

#endif  // TORCHRL_POOL_ENVS_CLASSIC_MOUNTAIN_CAR_H_
