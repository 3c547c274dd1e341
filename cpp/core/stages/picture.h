// uint8 [height, width, 3]: a picture of the env as it now is.
#ifndef TORCHRL_POOL_CORE_STAGES_PICTURE_H_
#define TORCHRL_POOL_CORE_STAGES_PICTURE_H_

#include "stages/stage.h"

namespace torchrl_pool::core {

class Picture : public Stage {
 public:
  explicit Picture(std::size_t column) : column_(column) {}

  bool Run(const StageRow& row) const override {
    std::byte* to = row.Column(column_);
    return !to || row.task->render(row.env, reinterpret_cast<std::uint8_t*>(to), row.error) == TRP_OK;
  }

 private:
  const std::size_t column_;
};

}  // namespace torchrl_pool::core

#endif  // TORCHRL_POOL_CORE_STAGES_PICTURE_H_
