// What an episode begins with and keeps, unless somebody changes it: the entries of TorchRL's
// TensorDictPrimer.
#ifndef TORCHRL_POOL_CORE_TRANSFORMS_EPISODE_VALUE_H_
#define TORCHRL_POOL_CORE_TRANSFORMS_EPISODE_VALUE_H_

#include <cstddef>
#include <cstring>
#include <utility>
#include <vector>

#include "stage.h"

namespace torchrl_pool::core {

class EpisodeValueStage : public RowStage<EpisodeValueStage> {
 public:
  // `first`: the row that episodes begin with.
  EpisodeValueStage(ValueIndex before, ValueIndex out, std::vector<std::byte> first)
      : before_(before), out_(out), first_(std::move(first)) {}

  void Step(const StageRow& row) const {
    std::memcpy(row.Get<std::byte>(out_), row.Get<const std::byte>(before_), first_.size());
  }
  void Reset(const StageRow& row) const {
    std::memcpy(row.Get<std::byte>(out_), first_.data(), first_.size());
  }

 private:
  const ValueIndex before_, out_;
  const std::vector<std::byte> first_;
};

}  // namespace torchrl_pool::core

#endif  // TORCHRL_POOL_CORE_TRANSFORMS_EPISODE_VALUE_H_
