// Floating-point observations in another dtype than the env's.
#ifndef TORCHRL_POOL_CORE_STAGES_CONVERT_H_
#define TORCHRL_POOL_CORE_STAGES_CONVERT_H_

#include <algorithm>

#include "stages/stage.h"

namespace torchrl_pool::core {

template <class From, class To>
class Convert : public Stage {
 public:
  Convert(std::size_t output, std::size_t column, std::size_t size)
      : output_(output), column_(column), size_(size) {}

  bool Run(const StageRow& row) const override {
    if (std::byte* to = row.Column(column_)) {
      std::copy_n(static_cast<const From*>(row.written[output_]), size_, reinterpret_cast<To*>(to));
    }
    return true;
  }

 private:
  const std::size_t output_, column_, size_;
};

}  // namespace torchrl_pool::core

#endif  // TORCHRL_POOL_CORE_STAGES_CONVERT_H_
