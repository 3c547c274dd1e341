// Smoothing is scipy.ndimage.zoom with cubic splines and mirrored ends (ni_splines.c, ni_interpolation.c),
// with the additions in its order.
#include "terrain.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

namespace torchrl_pool::dm_control {
namespace {

// From values to coefficients of splines, along one line of `count` values.
void FilterLine(double* line, std::size_t count, std::size_t stride) {
  const double pole = -0.267949192431122706472553658494127633;
  const auto at = [=](std::size_t i) -> double& { return line[i * stride]; };
  const double gain = (1.0 - pole) * (1.0 - 1.0 / pole);
  for (std::size_t i = 0; i < count; ++i) at(i) *= gain;
  const double last_power = std::pow(pole, static_cast<double>(count - 1));
  double power = pole, first = at(0) + last_power * at(count - 1);
  for (std::size_t i = 1; i < count - 1; ++i) {
    first += power * (at(i) + last_power * at(count - 1 - i));
    power *= pole;
  }
  at(0) = first / (1 - last_power * last_power);
  for (std::size_t i = 1; i < count; ++i) at(i) += pole * at(i - 1);
  at(count - 1) = (pole * at(count - 2) + at(count - 1)) * pole / (pole * pole - 1);
  for (std::size_t i = count - 1; i-- > 0;) at(i) = pole * (at(i + 1) - at(i));
}

// Which coefficients make the value at a place, and their weights.
struct Support {
  std::array<std::size_t, 4> index;
  std::array<double, 4> weight;
};
Support SupportAt(double place, std::size_t count) {
  const double floor = std::floor(place), y = place - floor, z = 1.0 - y;
  Support support;
  auto& [w0, w1, w2, w3] = support.weight;
  w1 = (y * y * (y - 2.0) * 3.0 + 4.0) / 6.0;
  w2 = (z * z * (z - 2.0) * 3.0 + 4.0) / 6.0;
  w0 = z * z * z / 6.0;
  w3 = 1.0 - w0 - w1 - w2;
  const auto last = static_cast<std::ptrdiff_t>(count) - 1;
  for (std::size_t k = 0; k < 4; ++k) {
    std::ptrdiff_t i = std::abs(static_cast<std::ptrdiff_t>(floor) - 1 + static_cast<std::ptrdiff_t>(k));
    if (i > last) i = 2 * last - i;
    support.index[k] = static_cast<std::size_t>(i);
  }
  return support;
}

double Bowl(double x, double y) {
  const double radius = std::clamp(std::sqrt(x * x + y * y), 0.04, 1.0);
  return 0.5 - std::cos(2 * std::numbers::pi * radius) / 2;
}

}  // namespace

void MakeTerrain(const std::vector<double>& bumps, std::size_t coarse, std::size_t fine, float* out) {
  std::vector<double> coefficients = bumps;
  for (std::size_t i = 0; i < coarse; ++i) FilterLine(&coefficients[i], coarse, coarse);
  for (std::size_t i = 0; i < coarse; ++i) FilterLine(&coefficients[i * coarse], coarse, 1);

  const double step = static_cast<double>(coarse - 1) / static_cast<double>(fine - 1);
  std::vector<Support> supports;
  std::vector<double> grid;
  for (std::size_t i = 0; i < fine; ++i) {
    supports.push_back(SupportAt(step * static_cast<double>(i), coarse));
    grid.push_back(static_cast<double>(i) * (2 / static_cast<double>(fine - 1)) + -1);
  }
  for (std::size_t row = 0; row < fine; ++row) {
    for (std::size_t column = 0; column < fine; ++column) {
      double height = 0;
      for (std::size_t a = 0; a < 4; ++a) {
        for (std::size_t b = 0; b < 4; ++b) {
          height += coefficients[supports[row].index[a] * coarse + supports[column].index[b]] *
                    supports[row].weight[a] * supports[column].weight[b];
        }
      }
      *out++ = static_cast<float>(Bowl(grid[column], grid[row]) * height);
    }
  }
}

}  // namespace torchrl_pool::dm_control
