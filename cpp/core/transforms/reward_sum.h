// What an episode has earned so far: the root's sum and the step's reward, as TorchRL's RewardSum adds them.
#ifndef TORCHRL_POOL_CORE_TRANSFORMS_REWARD_SUM_H_
#define TORCHRL_POOL_CORE_TRANSFORMS_REWARD_SUM_H_

#include <algorithm>

#include "chain.h"

namespace torchrl_pool::core {

template <class T>
class RewardSumStage : public RowStage<RewardSumStage<T>> {
 public:
  // `before`: the root's sum; it may be missing, and is zero then.
  RewardSumStage(ValueIndex reward, ValueIndex before, ValueIndex out, std::size_t size)
      : reward_(reward), before_(before), out_(out), size_(size) {}

  void Step(const ChainRow& row) const {
    const T* reward = row.Get<const T>(reward_);
    const T* before = row.Get<const T>(before_);
    T* out = row.Get<T>(out_);
    for (std::size_t i = 0; i < size_; ++i) out[i] = static_cast<T>((before ? before[i] : T{0}) + reward[i]);
  }

  void Reset(const ChainRow& row) const { std::fill_n(row.Get<T>(out_), size_, T{0}); }

 private:
  const ValueIndex reward_, before_, out_;
  const std::size_t size_;
};

}  // namespace torchrl_pool::core

#endif  // TORCHRL_POOL_CORE_TRANSFORMS_REWARD_SUM_H_
