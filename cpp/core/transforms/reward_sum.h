// What an episode has earned so far: the root's sum and the step's reward, as TorchRL's RewardSum adds them.
#ifndef TORCHRL_POOL_CORE_TRANSFORMS_REWARD_SUM_H_
#define TORCHRL_POOL_CORE_TRANSFORMS_REWARD_SUM_H_

#include <algorithm>

#include "stage.h"

namespace torchrl_pool::core {

template <class T>
class RewardSumStage : public Stage {
 public:
  // `before`: the root's sum; it may be missing, and is zero then.
  RewardSumStage(ValueIndex reward, ValueIndex before, ValueIndex out, std::size_t size)
      : reward_(reward), before_(before), out_(out), size_(size) {}

  void Run(const StageRows& rows, When when) const override {
    const auto add = [when](const T* reward, const T* before, T* out, std::size_t count) {
      if (when == When::kReset) {
        std::fill_n(out, count, T{0});
      } else if (before) {
        for (std::size_t i = 0; i < count; ++i) out[i] = static_cast<T>(before[i] + reward[i]);
      } else {
        for (std::size_t i = 0; i < count; ++i) out[i] = static_cast<T>(T{0} + reward[i]);
      }
    };
    ForElements<const T, const T, T>(rows, size_, {reward_, before_, out_}, add);
  }

 private:
  const ValueIndex reward_, before_, out_;
  const std::size_t size_;
};

}  // namespace torchrl_pool::core

#endif  // TORCHRL_POOL_CORE_TRANSFORMS_REWARD_SUM_H_
