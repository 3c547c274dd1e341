// An env that writes NaN has failed.
#ifndef TORCHRL_POOL_CORE_STAGES_REFUSE_NAN_H_
#define TORCHRL_POOL_CORE_STAGES_REFUSE_NAN_H_

#include <algorithm>
#include <string>
#include <utility>

#include "stages/stage.h"

namespace torchrl_pool::core {

template <class T>
class RefuseNan : public Stage {
 public:
  // by_steps_only: resets do not write this output.
  RefuseNan(std::size_t output, std::string name, std::size_t size, bool by_steps_only)
      : output_(output), name_(std::move(name)), size_(size), by_steps_only_(by_steps_only) {}

  bool Run(const StageRow& row) const override {
    if (by_steps_only_ && row.is_first()) return true;
    const auto* values = static_cast<const T*>(row.written[output_]);
    const auto is_nan = [](T value) { return value != value; };
    if (!std::any_of(values, values + size_, is_nan)) return true;
    return row.Fail("the env wrote nan to '%s'", name_.c_str());
  }

 private:
  const std::size_t output_;
  const std::string name_;
  const std::size_t size_;
  const bool by_steps_only_;
};

}  // namespace torchrl_pool::core

#endif  // TORCHRL_POOL_CORE_STAGES_REFUSE_NAN_H_
