// What the executor knows about an episode: how far it is, and what it has earned.
#ifndef TORCHRL_POOL_CORE_STAGES_EPISODE_H_
#define TORCHRL_POOL_CORE_STAGES_EPISODE_H_

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>

#include "stages/stage.h"

namespace torchrl_pool::core {

// int64 [1]: steps since the reset, as TorchRL's StepCounter counts them.
inline Stage StepCount(std::size_t column) {
  return {[=](const StageRow& row, std::byte*) {
    if (std::byte* to = row.Column(column)) std::memcpy(to, &row.elapsed_steps, sizeof row.elapsed_steps);
    return true;
  }};
}

// bool [1]: whether this is a first observation, as TorchRL's InitTracker.
inline Stage IsInit(std::size_t column) {
  return {[=](const StageRow& row, std::byte*) {
    if (std::byte* to = row.Column(column)) *to = std::byte{row.is_first()};
    return true;
  }};
}

// Of the reward's dtype and shape: its running sum since the reset, as TorchRL's RewardSum adds it up.
template <class T>
Stage EpisodeReward(std::size_t output, std::size_t column, const std::string& name, std::size_t size) {
  const auto run = [=](const StageRow& row, std::byte* state) {
    auto* sums = reinterpret_cast<T*>(state);
    if (row.is_first()) {
      std::fill_n(sums, size, T{0});
    } else {
      const auto* rewards = static_cast<const T*>(row.written[output]);
      for (std::size_t i = 0; i < size; ++i) sums[i] += rewards[i];
    }
    if (std::byte* to = row.Column(column)) std::memcpy(to, sums, size * sizeof(T));
    return true;
  };
  return {run, size * sizeof(T), name};
}

// float64 [1]: the reward of the step before it was rounded to the reward's own dtype; 0 after a reset.
inline Stage ExactReward(std::size_t output, std::size_t column) {
  return {[=](const StageRow& row, std::byte*) {
    std::byte* const to = row.Column(column);
    if (!to) return true;
    double reward = row.is_first() ? 0.0 : row.reward;
    if (std::isnan(reward)) reward = *static_cast<const float*>(row.written[output]);
    std::memcpy(to, &reward, sizeof reward);
    return true;
  }};
}

}  // namespace torchrl_pool::core

#endif  // TORCHRL_POOL_CORE_STAGES_EPISODE_H_
