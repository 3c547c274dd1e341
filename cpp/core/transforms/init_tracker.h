// Whether an episode begins here, as TorchRL's InitTracker has it.
#ifndef TORCHRL_POOL_CORE_TRANSFORMS_INIT_TRACKER_H_
#define TORCHRL_POOL_CORE_TRANSFORMS_INIT_TRACKER_H_

#include "chain.h"

namespace torchrl_pool::core {

class InitTrackerStage : public RowStage<InitTrackerStage> {
 public:
  explicit InitTrackerStage(ValueIndex out) : out_(out) {}

  void Step(const ChainRow& row) const { *row.Get<bool>(out_) = false; }
  void Reset(const ChainRow& row) const { *row.Get<bool>(out_) = true; }

 private:
  const ValueIndex out_;
};

}  // namespace torchrl_pool::core

#endif  // TORCHRL_POOL_CORE_TRANSFORMS_INIT_TRACKER_H_
