// How far an episode is, and its end after so many steps, as TorchRL's StepCounter has it.
#ifndef TORCHRL_POOL_CORE_TRANSFORMS_STEP_COUNTER_H_
#define TORCHRL_POOL_CORE_TRANSFORMS_STEP_COUNTER_H_

#include <cstdint>
#include <optional>

#include "chain.h"

namespace torchrl_pool::core {

class StepCounterStage : public RowStage<StepCounterStage> {
 public:
  // max_steps: 0: none. The flags are those of the pool, and change where they stand.
  StepCounterStage(ValueIndex before, ValueIndex out, std::int64_t max_steps, ValueIndex truncated,
                   std::optional<ValueIndex> done)
      : before_(before), out_(out), max_steps_(max_steps), truncated_(truncated), done_(done) {}

  void Step(const ChainRow& row) const {
    const std::int64_t count = *row.Get<const std::int64_t>(before_) + 1;
    *row.Get<std::int64_t>(out_) = count;
    if (max_steps_ == 0 || count < max_steps_) return;
    *row.Get<bool>(truncated_) = true;
    if (done_) *row.Get<bool>(*done_) = true;
  }

  void Reset(const ChainRow& row) const { *row.Get<std::int64_t>(out_) = 0; }

 private:
  const ValueIndex before_, out_;
  const std::int64_t max_steps_;
  const ValueIndex truncated_;
  const std::optional<ValueIndex> done_;
};

}  // namespace torchrl_pool::core

#endif  // TORCHRL_POOL_CORE_TRANSFORMS_STEP_COUNTER_H_
