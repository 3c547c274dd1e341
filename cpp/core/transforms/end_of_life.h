// Whether a life is over, as TorchRL's EndOfLifeTransform tells from how many are left.
#ifndef TORCHRL_POOL_CORE_TRANSFORMS_END_OF_LIFE_H_
#define TORCHRL_POOL_CORE_TRANSFORMS_END_OF_LIFE_H_

#include <cstdint>

#include "stage.h"

namespace torchrl_pool::core {

class EndOfLifeStage : public RowStage<EndOfLifeStage> {
 public:
  // `before`: the root's lives.
  EndOfLifeStage(ValueIndex lives, ValueIndex before, ValueIndex done, ValueIndex out)
      : lives_(lives), before_(before), done_(done), out_(out) {}

  void Step(const StageRow& row) const {
    const bool lost = *row.Get<const std::int64_t>(before_) > *row.Get<const std::int64_t>(lives_);
    *row.Get<bool>(out_) = lost || *row.Get<const bool>(done_);
  }
  void Reset(const StageRow& row) const { *row.Get<bool>(out_) = false; }

 private:
  const ValueIndex lives_, before_, done_, out_;
};

}  // namespace torchrl_pool::core

#endif  // TORCHRL_POOL_CORE_TRANSFORMS_END_OF_LIFE_H_
