// Elements moved from one place to another, whatever they are: joined, cut, turned around, renamed.
#ifndef TORCHRL_POOL_CORE_TRANSFORMS_COPY_H_
#define TORCHRL_POOL_CORE_TRANSFORMS_COPY_H_

#include <cstddef>
#include <cstring>
#include <utility>
#include <vector>

#include "stage.h"

namespace torchrl_pool::core {

// A box of elements, read and written at strides of its own. Strides and offsets are in bytes; the innermost
// dimension comes last, and is copied in one piece: its length is `bytes`.
struct CopyShape {
  std::vector<std::size_t> sizes = {}, from_strides = {}, to_strides = {};
  std::size_t from_offset = 0, to_offset = 0, bytes = 0;
};

class CopyStage : public RowStage<CopyStage> {
 public:
  CopyStage(ValueIndex in, ValueIndex out, CopyShape shape) : in_(in), out_(out), shape_(std::move(shape)) {}

  void Step(const StageRow& row) const {
    Copy(row.Get<const std::byte>(in_) + shape_.from_offset, row.Get<std::byte>(out_) + shape_.to_offset, 0);
  }

 private:
  void Copy(const std::byte* from, std::byte* to, std::size_t dim) const {
    if (dim == shape_.sizes.size()) {
      std::memcpy(to, from, shape_.bytes);
      return;
    }
    const std::size_t size = shape_.sizes[dim], step = shape_.from_strides[dim], out = shape_.to_strides[dim];
    if (dim + 1 == shape_.sizes.size()) {
      // Small elements one by one, as of a picture whose channels come first: a call for each takes longest.
      if (shape_.bytes == 1) return CopyEach<1>(from, to, size, step, out);
      if (shape_.bytes == 4) return CopyEach<4>(from, to, size, step, out);
      if (shape_.bytes == 8) return CopyEach<8>(from, to, size, step, out);
    }
    for (std::size_t i = 0; i < size; ++i) Copy(from + i * step, to + i * out, dim + 1);
  }

  template <std::size_t kBytes>
  static void CopyEach(const std::byte* from, std::byte* to, std::size_t size, std::size_t from_stride,
                       std::size_t to_stride) {
    for (std::size_t i = 0; i < size; ++i) std::memcpy(to + i * to_stride, from + i * from_stride, kBytes);
  }

  const ValueIndex in_, out_;
  const CopyShape shape_;
};

}  // namespace torchrl_pool::core

#endif  // TORCHRL_POOL_CORE_TRANSFORMS_COPY_H_
