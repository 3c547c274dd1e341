// What the executor knows about an episode: how far it is, and what it has earned.
#ifndef TORCHRL_POOL_CORE_STAGES_EPISODE_H_
#define TORCHRL_POOL_CORE_STAGES_EPISODE_H_

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>

#include "stages/stage.h"

namespace torchrl_pool::core {

// int64 [1]: steps since the reset, as TorchRL's StepCounter counts them.
class StepCount : public Stage {
 public:
  explicit StepCount(std::size_t column) : column_(column) {}

  bool Run(const StageRow& row) const override {
    if (std::byte* to = row.columns[column_]) std::memcpy(to, &row.elapsed_steps, sizeof row.elapsed_steps);
    return true;
  }

 private:
  const std::size_t column_;
};

// bool [1]: whether this is a first observation, as TorchRL's InitTracker.
class IsInit : public Stage {
 public:
  explicit IsInit(std::size_t column) : column_(column) {}

  bool Run(const StageRow& row) const override {
    if (std::byte* to = row.columns[column_]) *to = std::byte{row.is_first()};
    return true;
  }

 private:
  const std::size_t column_;
};

// float32, of the reward's shape: its running sum since the reset, as TorchRL's RewardSum adds it up.
class EpisodeReward : public Stage {
 public:
  EpisodeReward(std::size_t output, std::size_t column, std::string name, std::size_t size)
      : output_(output), column_(column), name_(std::move(name)), size_(size) {}

  bool Run(const StageRow& row) const override {
    auto* sums = reinterpret_cast<float*>(row.state + state_offset);
    if (row.is_first()) {
      std::fill_n(sums, size_, 0.0f);
    } else {
      const auto* rewards = static_cast<const float*>(row.written[output_]);
      for (std::size_t i = 0; i < size_; ++i) sums[i] += rewards[i];
    }
    if (std::byte* to = row.columns[column_]) std::memcpy(to, sums, state_bytes());
    return true;
  }

  std::size_t state_bytes() const override { return size_ * sizeof(float); }
  std::string state_name() const override { return name_; }

 private:
  const std::size_t output_, column_;
  const std::string name_;
  const std::size_t size_;
};

}  // namespace torchrl_pool::core

#endif  // TORCHRL_POOL_CORE_STAGES_EPISODE_H_
