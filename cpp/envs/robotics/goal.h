// What tasks with goals have in common. Reference: gymnasium_robotics/core.py, version 1.4.2.
#ifndef TORCHRL_POOL_ENVS_ROBOTICS_GOAL_H_
#define TORCHRL_POOL_ENVS_ROBOTICS_GOAL_H_

#include <array>
#include <cmath>
#include <cstddef>
#include <string>

#include "library.h"
#include "numpy_sum.h"
#include "torchrl_pool/env.h"

namespace torchrl_pool::robotics {

// Where this family's models lie.
inline std::string ModelFolder() { return mujoco::DataFolder() + "/../robotics"; }

template <std::size_t size>
std::array<double, size> Difference(const std::array<double, size>& a, const std::array<double, size>& b) {
  std::array<double, size> difference;
  for (std::size_t i = 0; i < size; ++i) difference[i] = a[i] - b[i];
  return difference;
}

// numpy.linalg.norm(a - b, axis=-1): a plain sum, where the norm of a single vector is a product of BLAS.
template <std::size_t size>
double Distance(const std::array<double, size>& a, const std::array<double, size>& b) {
  return std::sqrt(SumOfSquares(Difference(a, b).data(), size));
}

// How rewards are given: the option that all tasks have.
template <class Visitor>
void VisitRewardType(Visitor& visit, std::string& reward_type, const char* help) {
  visit("reward_type", reward_type, help, Limits<std::string>{.choices = {"sparse", "dense"}});
}

}  // namespace torchrl_pool::robotics

#endif  // TORCHRL_POOL_ENVS_ROBOTICS_GOAL_H_
