// Whether an episode begins here, as TorchRL's InitTracker has it.
#ifndef TORCHRL_POOL_CORE_TRANSFORMS_INIT_TRACKER_H_
#define TORCHRL_POOL_CORE_TRANSFORMS_INIT_TRACKER_H_

#include <algorithm>

#include "stage.h"

namespace torchrl_pool::core {

class InitTrackerStage : public Stage {
 public:
  explicit InitTrackerStage(ValueIndex out) : out_(out) {}

  void Run(const StageRows& rows, When when) const override {
    ForElements<bool>(rows, 1, {out_}, [when](bool* out, std::size_t count) {
      std::fill_n(out, count, when == When::kReset);
    });
  }

 private:
  const ValueIndex out_;
};

}  // namespace torchrl_pool::core

#endif  // TORCHRL_POOL_CORE_TRANSFORMS_INIT_TRACKER_H_
