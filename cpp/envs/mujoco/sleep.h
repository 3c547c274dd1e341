// Which bodies of a simulation sleep, where the model lets them (<flag sleep="enable"/>): the next steps
// depend on it, and mjSTATE_INTEGRATION lacks it.
#ifndef TORCHRL_POOL_ENVS_MUJOCO_SLEEP_H_
#define TORCHRL_POOL_ENVS_MUJOCO_SLEEP_H_

#include <mujoco/mujoco.h>

#include <cstddef>
#include <span>
#include <vector>

namespace torchrl_pool::mujoco {

// How many numbers say it; 0: nothing ever sleeps.
std::size_t SleepSize(const mjModel& model);
void SaveSleep(const mjModel& model, const mjData& data, std::vector<double>* to);

// Throws InvalidArgument where these numbers cannot be: MuJoCo would follow them out of its arrays.
void CheckSleep(const mjModel& model, std::span<const double> numbers);
void RestoreSleep(const mjModel& model, std::span<const double> numbers, mjData* data);

}  // namespace torchrl_pool::mujoco

#endif  // TORCHRL_POOL_ENVS_MUJOCO_SLEEP_H_
