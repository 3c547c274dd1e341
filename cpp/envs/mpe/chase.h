// What the scenarios with predators and prey share.
// References: mpe2/simple_tag/simple_tag.py, mpe2/simple_world_comm/simple_world_comm.py.
#ifndef TORCHRL_POOL_ENVS_MPE_CHASE_H_
#define TORCHRL_POOL_ENVS_MPE_CHASE_H_

#include <algorithm>
#include <cmath>

#include "scenario.h"

namespace torchrl_pool::mpe {

constexpr double kPredatorSpeed = 1.0, kPredatorAcceleration = 3.0;
constexpr double kPreySpeed = 1.3, kPreyAcceleration = 4.0;

class Chase : public Scenario {
 protected:
  Chase(const CommonOptions& common, std::size_t num_words, std::int64_t num_predators)
      : Scenario(common, num_words), num_predators_(static_cast<std::size_t>(num_predators)) {}

  std::span<Entity> predators() { return agents().first(num_predators_); }
  std::span<Entity> prey() { return agents().subspan(num_predators_); }
  bool IsPrey(const Entity& agent) const { return IndexOf(agent) >= num_predators_; }

  bool IsCaught(const Entity& agent) {
    return std::ranges::any_of(predators(), [&](const Entity& predator) { return Touch(agent, predator); });
  }
  // How often a predator touches prey.
  int NumCatches() {
    int catches = 0;
    for (const Entity& agent : prey()) catches += NumCatches(agent);
    return catches;
  }
  int NumCatches(const Entity& agent) {
    return static_cast<int>(
        std::ranges::count_if(predators(), [&](const Entity& predator) { return Touch(agent, predator); }));
  }
  // What it costs prey to be at this coordinate: more and more towards the edge, and beyond.
  static double CostAt(double coordinate) {
    const double x = std::abs(coordinate);
    if (x < 0.9) return 0;
    if (x < 1) return (x - 0.9) * 10;
    return std::min(std::exp(2 * x - 2), 10.0);
  }

 private:
  std::size_t num_predators_;
};

}  // namespace torchrl_pool::mpe

#endif  // TORCHRL_POOL_ENVS_MPE_CHASE_H_
