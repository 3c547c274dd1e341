// What only the env itself can tell of a row: its picture, its reward as it was, and that it wrote nan.
#ifndef TORCHRL_POOL_CORE_TRANSFORMS_TOLD_BY_ENVS_H_
#define TORCHRL_POOL_CORE_TRANSFORMS_TOLD_BY_ENVS_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>

#include "env_slot.h"
#include "stage.h"

namespace torchrl_pool::core {

// uint8 [height, width, 3]: a picture of the env as it now is.
class PictureStage : public RowStage<PictureStage> {
 public:
  PictureStage(ValueIndex slot, ValueIndex out, ValueIndex fault) : slot_(slot), out_(out), fault_(fault) {}

  void Step(const StageRow& row) const {
    const EnvSlot& slot = *row.Get<const EnvSlot>(slot_);
    Fault& fault = *row.Get<Fault>(fault_);
    auto* const picture = row.Get<std::uint8_t>(out_);
    fault.is_found = slot.task->render(slot.env, picture, fault.error) != TRP_OK;
  }

 private:
  const ValueIndex slot_, out_, fault_;
};

// float64 [1]: the reward of the step before it was rounded to float32; 0 after a reset.
class ExactRewardStage : public RowStage<ExactRewardStage> {
 public:
  // told: a double, nan where the env has told no more than the reward.
  ExactRewardStage(ValueIndex told, ValueIndex reward, ValueIndex out)
      : told_(told), reward_(reward), out_(out) {}

  void Step(const StageRow& row) const {
    const double told = *row.Get<const double>(told_);
    *row.Get<double>(out_) = std::isnan(told) ? *row.Get<const float>(reward_) : told;
  }
  void Reset(const StageRow& row) const { *row.Get<double>(out_) = 0.0; }

 private:
  const ValueIndex told_, reward_, out_;
};

// An env that writes nan has failed.
template <class T>
class RefuseNanStage : public RowStage<RefuseNanStage<T>> {
 public:
  RefuseNanStage(ValueIndex in, std::size_t size, ValueIndex fault, std::string name)
      : in_(in), size_(size), fault_(fault), name_(std::move(name)) {}

  void Step(const StageRow& row) const {
    const T* const values = row.Get<const T>(in_);
    if (std::none_of(values, values + size_, [](T value) { return value != value; })) return;
    row.Get<Fault>(fault_)->Say("the env wrote nan to '%s'", name_.c_str());
  }

 private:
  const ValueIndex in_;
  const std::size_t size_;
  const ValueIndex fault_;
  const std::string name_;
};

}  // namespace torchrl_pool::core

#endif  // TORCHRL_POOL_CORE_TRANSFORMS_TOLD_BY_ENVS_H_
