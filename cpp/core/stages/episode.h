// What the executor knows about an episode: how far it is, and what it has earned.
#ifndef TORCHRL_POOL_CORE_STAGES_EPISODE_H_
#define TORCHRL_POOL_CORE_STAGES_EPISODE_H_

#include <algorithm>
#include <cmath>
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
    if (std::byte* to = row.Column(column_)) std::memcpy(to, &row.elapsed_steps, sizeof row.elapsed_steps);
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
    if (std::byte* to = row.Column(column_)) *to = std::byte{row.is_first()};
    return true;
  }

 private:
  const std::size_t column_;
};

// Of the reward's dtype and shape: its running sum since the reset, as TorchRL's RewardSum adds it up.
template <class T>
class EpisodeReward : public Stage {
 public:
  EpisodeReward(std::size_t output, std::size_t column, std::string name, std::size_t size)
      : output_(output), column_(column), name_(std::move(name)), size_(size) {}

  bool Run(const StageRow& row) const override {
    auto* sums = reinterpret_cast<T*>(row.state + state_offset);
    if (row.is_first()) {
      std::fill_n(sums, size_, T{0});
    } else {
      const auto* rewards = static_cast<const T*>(row.written[output_]);
      for (std::size_t i = 0; i < size_; ++i) sums[i] += rewards[i];
    }
    if (std::byte* to = row.Column(column_)) std::memcpy(to, sums, state_bytes());
    return true;
  }

  std::size_t state_bytes() const override { return size_ * sizeof(T); }
  std::string state_name() const override { return name_; }

 private:
  const std::size_t output_, column_;
  const std::string name_;
  const std::size_t size_;
};

// float64 [1]: the reward of the step before it was rounded to the reward's own dtype; 0 after a reset.
class ExactReward : public Stage {
 public:
  ExactReward(std::size_t output, std::size_t column) : output_(output), column_(column) {}

  bool Run(const StageRow& row) const override {
    std::byte* const to = row.Column(column_);
    if (!to) return true;
    double reward = row.is_first() ? 0.0 : row.reward;
    if (std::isnan(reward)) reward = *static_cast<const float*>(row.written[output_]);
    std::memcpy(to, &reward, sizeof reward);
    return true;
  }

 private:
  const std::size_t output_, column_;
};

}  // namespace torchrl_pool::core

#endif  // TORCHRL_POOL_CORE_STAGES_EPISODE_H_
