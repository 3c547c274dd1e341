// The last frames of an episode side by side, as TorchRL's CatFrames keeps them: in a tensor of the user's
// transform, which is read and written where it lies.
#ifndef TORCHRL_POOL_CORE_TRANSFORMS_CAT_FRAMES_H_
#define TORCHRL_POOL_CORE_TRANSFORMS_CAT_FRAMES_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "stage.h"

namespace torchrl_pool::core {

// A row is `blocks` pieces of `bytes` each; of each piece `frames` are kept one after another, the newest
// last.
struct FramesShape {
  std::size_t blocks, frames, bytes;

  std::size_t row_bytes() const { return blocks * frames * bytes; }
};

class CatFramesStage : public RowStage<CatFramesStage> {
 public:
  // `kept`: the address of all envs' frames. `padding`: a piece that stands before an episode's first frame;
  // empty: that frame does itself.
  CatFramesStage(ValueIndex in, ValueIndex out, std::uintptr_t kept, FramesShape shape,
                 std::vector<std::byte> padding)
      : in_(in), out_(out), kept_(kept), shape_(shape), padding_(std::move(padding)) {}

  void Step(const StageRow& row) const {
    Write(row, [this](std::byte* frames, const std::byte*) {
      std::memmove(frames, frames + shape_.bytes, (shape_.frames - 1) * shape_.bytes);
    });
  }

  void Reset(const StageRow& row) const {
    Write(row, [this](std::byte* frames, const std::byte* newest) {
      const std::byte* const first = padding_.empty() ? newest : padding_.data();
      for (std::size_t i = 0; i + 1 < shape_.frames; ++i) {
        std::memcpy(frames + i * shape_.bytes, first, shape_.bytes);
      }
    });
  }

 private:
  // `write_older` fills in all frames of a block but the newest.
  template <class WriteOlder>
  void Write(const StageRow& row, WriteOlder&& write_older) const {
    std::byte* const kept = reinterpret_cast<std::byte*>(kept_) + row.env * shape_.row_bytes();
    const std::byte* newest = row.Get<const std::byte>(in_);
    std::byte* frames = kept;
    for (std::size_t i = 0; i < shape_.blocks; ++i) {
      write_older(frames, newest);
      std::memcpy(frames + (shape_.frames - 1) * shape_.bytes, newest, shape_.bytes);
      frames += shape_.frames * shape_.bytes;
      newest += shape_.bytes;
    }
    std::memcpy(row.Get<std::byte>(out_), kept, shape_.row_bytes());
  }

  const ValueIndex in_, out_;
  const std::uintptr_t kept_;
  const FramesShape shape_;
  const std::vector<std::byte> padding_;
};

}  // namespace torchrl_pool::core

#endif  // TORCHRL_POOL_CORE_TRANSFORMS_CAT_FRAMES_H_
