// The random terrain of quadruped's escape: a bowl with smooth bumps.
#ifndef TORCHRL_POOL_ENVS_DM_CONTROL_TERRAIN_H_
#define TORCHRL_POOL_ENVS_DM_CONTROL_TERRAIN_H_

#include <cstddef>
#include <vector>

namespace torchrl_pool::dm_control {

// bumps: random heights, coarse x coarse, which are smoothed. out: heights, fine x fine.
void MakeTerrain(const std::vector<double>& bumps, std::size_t coarse, std::size_t fine, float* out);

}  // namespace torchrl_pool::dm_control

#endif  // TORCHRL_POOL_ENVS_DM_CONTROL_TERRAIN_H_
