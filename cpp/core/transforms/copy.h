// Elements moved from one place to another, whatever they are: joined, cut, turned around, renamed.
#ifndef TORCHRL_POOL_CORE_TRANSFORMS_COPY_H_
#define TORCHRL_POOL_CORE_TRANSFORMS_COPY_H_

#include <cstddef>
#include <cstring>
#include <utility>
#include <vector>

#include "chain.h"

namespace torchrl_pool::core {

// A box of elements, read and written at strides of its own. Strides and offsets are in bytes; the innermost
// dimension comes last, and is copied in one piece: its length is `bytes`.
struct CopyShape {
  std::vector<std::size_t> sizes, from_strides, to_strides;
  std::size_t from_offset = 0, to_offset = 0, bytes = 0;
};

class CopyStage : public ChainStage {
 public:
  CopyStage(ValueIndex in, ValueIndex out, CopyShape shape) : in_(in), out_(out), shape_(std::move(shape)) {}

  void Step(const ChainRow& row) const override {
    Copy(row.Get<const std::byte>(in_) + shape_.from_offset, row.Get<std::byte>(out_) + shape_.to_offset, 0);
  }

 private:
  void Copy(const std::byte* from, std::byte* to, std::size_t dim) const {
    if (dim == shape_.sizes.size()) {
      std::memcpy(to, from, shape_.bytes);
      return;
    }
    for (std::size_t i = 0; i < shape_.sizes[dim]; ++i) {
      Copy(from + i * shape_.from_strides[dim], to + i * shape_.to_strides[dim], dim + 1);
    }
  }

  const ValueIndex in_, out_;
  const CopyShape shape_;
};

}  // namespace torchrl_pool::core

#endif  // TORCHRL_POOL_CORE_TRANSFORMS_COPY_H_
