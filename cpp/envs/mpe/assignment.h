// Who takes which place.
#ifndef TORCHRL_POOL_ENVS_MPE_ASSIGNMENT_H_
#define TORCHRL_POOL_ENVS_MPE_ASSIGNMENT_H_

#include <cstddef>
#include <vector>

namespace torchrl_pool::mpe {

// The column of each row of a square matrix so that the sum is least, as scipy.optimize.linear_sum_assignment
// finds it: by shortest augmenting paths (Crouse 2016). Where it would refuse numbers that are none, this
// gives any columns.
std::vector<std::size_t> LeastCost(const std::vector<double>& costs, std::size_t size);

}  // namespace torchrl_pool::mpe

#endif  // TORCHRL_POOL_ENVS_MPE_ASSIGNMENT_H_
