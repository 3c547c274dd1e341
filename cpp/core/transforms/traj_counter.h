// Numbers for episodes, as TorchRL's TrajCounter gives them: from a count that its copies share.
#ifndef TORCHRL_POOL_CORE_TRANSFORMS_TRAJ_COUNTER_H_
#define TORCHRL_POOL_CORE_TRANSFORMS_TRAJ_COUNTER_H_

#include <cstddef>
#include <cstdint>

#include "stage.h"

namespace torchrl_pool::core {

// At resets alone. The order of the envs is that of the numbers, whichever thread begins an episode first.
class TrajCounterStage : public RowStage<TrajCounterStage> {
 public:
  // `count`: the address of an int32, which other envs may share.
  TrajCounterStage(ValueIndex out, std::size_t num_envs, std::uintptr_t count)
      : out_(out), num_envs_(num_envs), count_(count) {}

  std::size_t learned_bytes() const override { return num_envs_ * sizeof(std::int64_t); }
  void Learn(const BatchRows& rows, std::byte* learned) const override {
    auto* const numbers = reinterpret_cast<std::int64_t*>(learned);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      if (!rows.Begins(i)) continue;
      numbers[rows.env(i)] = __atomic_fetch_add(reinterpret_cast<std::int32_t*>(count_), 1, __ATOMIC_RELAXED);
    }
  }

  void Step(const StageRow& row) const {
    *row.Get<std::int64_t>(out_) = reinterpret_cast<const std::int64_t*>(row.learned)[row.env];
  }

 private:
  const ValueIndex out_;
  const std::size_t num_envs_;
  const std::uintptr_t count_;
};

}  // namespace torchrl_pool::core

#endif  // TORCHRL_POOL_CORE_TRANSFORMS_TRAJ_COUNTER_H_
