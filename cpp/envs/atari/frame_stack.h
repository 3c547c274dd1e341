// The last pictures of an env, oldest first.
#ifndef TORCHRL_POOL_ENVS_ATARI_FRAME_STACK_H_
#define TORCHRL_POOL_ENVS_ATARI_FRAME_STACK_H_

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

namespace torchrl_pool::atari {

// Belongs to the env: a row of a batch belongs to whoever asked for it.
class FrameStack {
 public:
  FrameStack(int count, std::size_t frame_bytes)
      : count_(static_cast<std::size_t>(count)), frame_bytes_(frame_bytes), frames_(count_ * frame_bytes) {}

  std::uint8_t* newest() { return &frames_[newest_ * frame_bytes_]; }

  // The oldest picture gives way to a copy of the newest, for the caller to bring up to date.
  std::uint8_t* Push() {
    const std::uint8_t* from = newest();
    newest_ = (newest_ + 1) % count_;
    if (count_ > 1) std::memcpy(newest(), from, frame_bytes_);
    return newest();
  }

  void Clear() { std::fill(frames_.begin(), frames_.end(), std::uint8_t{0}); }

  // All pictures as the newest.
  void Repeat() {
    for (std::size_t i = 1; i < count_; ++i) Push();
  }

  // out: [count, frame_bytes].
  void Write(std::uint8_t* out) const {
    ForEach([&](const std::uint8_t* frame) {
      std::memcpy(out, frame, frame_bytes_);
      out += frame_bytes_;
    });
  }
  // The same as float32, divided by 255.
  void WriteScaled(float* out) const {
    ForEach([&](const std::uint8_t* frame) {
      for (std::size_t i = 0; i < frame_bytes_; ++i) *out++ = static_cast<float>(frame[i]) / 255.0f;
    });
  }

  template <class Visitor>
  void VisitState(Visitor& visit) {
    visit(newest_, frames_);
  }
  bool fits(const FrameStack& other) const {
    return frames_.size() == other.frames_.size() && newest_ < count_;
  }

 private:
  template <class Function>
  void ForEach(Function&& function) const {
    for (std::size_t i = 1; i <= count_; ++i) function(&frames_[(newest_ + i) % count_ * frame_bytes_]);
  }

  std::size_t count_, frame_bytes_;
  std::size_t newest_ = 0;
  std::vector<std::uint8_t> frames_;
};

}  // namespace torchrl_pool::atari

#endif  // TORCHRL_POOL_ENVS_ATARI_FRAME_STACK_H_
