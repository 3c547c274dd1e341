#include "formation.h"

#include <algorithm>

#include "assignment.h"
#include "numpy_blas.h"
#include "numpy_sum.h"

namespace torchrl_pool::mpe {
namespace {

constexpr double kPlaceRadius = 0.05;
constexpr double kMostDistance = 2;

}  // namespace

double Formation::GlobalReward() {
  const std::vector<Point>& places = Places();
  const std::size_t count = places.size();
  std::vector<double> costs;
  for (const Entity& agent : agents()) {
    for (const Point& place : places) costs.push_back(Norm(agent.position - place));
  }
  const std::vector<std::size_t> column_of = LeastCost(costs, count);
  distances_.resize(count);
  for (std::size_t i = 0; i < count; ++i) {
    distances_[i] = costs[i * count + std::min(column_of[i], count - 1)];
  }
  const auto clipped = [this](std::size_t i) { return std::clamp(distances_[i], 0.0, kMostDistance); };
  return -(PairwiseSum<double>(0, count, clipped) / static_cast<double>(count));
}

bool Formation::IsSolved() {
  return terminates_ &&
         std::ranges::all_of(distances_, [](double distance) { return distance < kPlaceRadius; });
}

}  // namespace torchrl_pool::mpe
