// Soft tests of whether a number lies within bounds. Reference: dm_control/utils/rewards.py, version 1.0.50.
#ifndef TORCHRL_POOL_ENVS_DM_CONTROL_REWARDS_H_
#define TORCHRL_POOL_ENVS_DM_CONTROL_REWARDS_H_

#include <cmath>
#include <limits>

#include "numpy_math.h"
#include "numpy_sum.h"

namespace torchrl_pool::dm_control {

struct Bounds {
  double low = 0, high = 0;
};
inline Bounds AtLeast(double low) { return {low, std::numeric_limits<double>::infinity()}; }

namespace internal {

// `falloff` takes the distance to the bounds in margins.
template <class Falloff>
double Tolerance(double x, Bounds bounds, double margin, const Falloff& falloff) {
  if (bounds.low <= x && x <= bounds.high) return 1;
  return falloff((x < bounds.low ? bounds.low - x : x - bounds.high) / margin);
}
inline double GaussianScale() { return std::sqrt(-2 * std::log(0.1)); }

}  // namespace internal

// 1 within the bounds, else 0.
inline double Within(double x, Bounds bounds) { return bounds.low <= x && x <= bounds.high ? 1 : 0; }

// 1 within the bounds; outside it falls, and is 0.1, or `at_margin`, at the distance `margin`.
inline double Gaussian(double x, Bounds bounds, double margin) {
  return internal::Tolerance(x, bounds, margin, [](double distance) {
    return std::exp(-0.5 * Square(distance * internal::GaussianScale()));
  });
}
// As it comes out for the elements of an array, whose squares NumPy multiplies out.
inline double GaussianOfElement(double x, Bounds bounds, double margin) {
  return internal::Tolerance(x, bounds, margin, [](double distance) {
    const double scaled = distance * internal::GaussianScale();
    return std::exp(-0.5 * (scaled * scaled));
  });
}
inline double Linear(double x, Bounds bounds, double margin, double at_margin = 0) {
  return internal::Tolerance(x, bounds, margin, [at_margin](double distance) {
    const double scaled = distance * (1 - at_margin);
    return std::abs(scaled) < 1 ? 1 - scaled : 0.0;
  });
}
inline double LongTail(double x, Bounds bounds, double margin) {
  return internal::Tolerance(
      x, bounds, margin, [](double distance) { return 1 / (Square(distance * std::sqrt(1 / 0.1 - 1)) + 1); });
}
inline double Reciprocal(double x, Bounds bounds, double margin) {
  return internal::Tolerance(x, bounds, margin,
                             [](double distance) { return 1 / (std::abs(distance) * (1 / 0.1 - 1) + 1); });
}
// How near controls are to 0, for each: a parabola.
inline double SmallControl(double control) {
  return internal::Tolerance(control, {}, 1, [](double x) { return std::abs(x) < 1 ? 1 - x * x : 0.0; });
}
inline double MeanSmallControl(const double* controls, int count) {
  const auto at = [controls](std::size_t i) { return SmallControl(controls[i]); };
  return PairwiseSum<double>(0, static_cast<std::size_t>(count), at) / count;
}

}  // namespace torchrl_pool::dm_control

#endif  // TORCHRL_POOL_ENVS_DM_CONTROL_REWARDS_H_
