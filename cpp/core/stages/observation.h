// Observations in another form than the env's; and what no env may write.
#ifndef TORCHRL_POOL_CORE_STAGES_OBSERVATION_H_
#define TORCHRL_POOL_CORE_STAGES_OBSERVATION_H_

#include <algorithm>
#include <string>

#include "stages/stage.h"

namespace torchrl_pool::core {

// Floating-point observations in another dtype.
template <class From, class To>
Stage Convert(std::size_t output, std::size_t column, std::size_t size) {
  return {[=](const StageRow& row, std::byte*) {
    if (std::byte* to = row.Column(column)) {
      std::copy_n(static_cast<const From*>(row.written[output]), size, reinterpret_cast<To*>(to));
    }
    return true;
  }};
}

// uint8 [height, width, 3]: a picture of the env as it now is.
inline Stage Picture(std::size_t column) {
  return {[=](const StageRow& row, std::byte*) {
    std::byte* to = row.Column(column);
    return !to || row.task->render(row.env, reinterpret_cast<std::uint8_t*>(to), row.error) == TRP_OK;
  }};
}

// An env that writes NaN has failed. by_steps_only: resets do not write this output.
template <class T>
Stage RefuseNan(std::size_t output, const std::string& name, std::size_t size, bool by_steps_only) {
  return {[=](const StageRow& row, std::byte*) {
    if (by_steps_only && row.is_first()) return true;
    const auto* values = static_cast<const T*>(row.written[output]);
    const auto is_nan = [](T value) { return value != value; };
    if (!std::any_of(values, values + size, is_nan)) return true;
    return row.Fail("the env wrote nan to '%s'", name.c_str());
  }};
}

}  // namespace torchrl_pool::core

#endif  // TORCHRL_POOL_CORE_STAGES_OBSERVATION_H_
