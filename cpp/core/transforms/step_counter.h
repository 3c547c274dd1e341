// How far an episode is, and its end after so many steps, as TorchRL's StepCounter has it.
#ifndef TORCHRL_POOL_CORE_TRANSFORMS_STEP_COUNTER_H_
#define TORCHRL_POOL_CORE_TRANSFORMS_STEP_COUNTER_H_

#include <cstdint>
#include <optional>

#include "stage.h"

namespace torchrl_pool::core {

class StepCounterStage : public Stage {
 public:
  // max_steps: 0: none. The flags are those of the pool, and change where they stand.
  StepCounterStage(ValueIndex before, ValueIndex out, std::int64_t max_steps, ValueIndex truncated,
                   std::optional<ValueIndex> done)
      : before_(before), out_(out), max_steps_(max_steps), truncated_(truncated), done_(done) {}

  void Run(const StageRows& rows, When when) const override {
    const auto count_up = [when](const std::int64_t* before, std::int64_t* out, std::size_t count) {
      for (std::size_t i = 0; i < count; ++i) out[i] = when == When::kReset ? 0 : before[i] + 1;
    };
    ForElements<const std::int64_t, std::int64_t>(rows, 1, {before_, out_}, count_up);
    if (when == When::kReset || max_steps_ == 0) return;
    for (std::uint32_t i = 0; i < rows.count; ++i) {
      const StageRow row = rows.Row(i);
      if (*row.Get<const std::int64_t>(out_) < max_steps_) continue;
      *row.Get<bool>(truncated_) = true;
      if (done_) *row.Get<bool>(*done_) = true;
    }
  }

 private:
  const ValueIndex before_, out_;
  const std::int64_t max_steps_;
  const ValueIndex truncated_;
  const std::optional<ValueIndex> done_;
};

}  // namespace torchrl_pool::core

#endif  // TORCHRL_POOL_CORE_TRANSFORMS_STEP_COUNTER_H_
