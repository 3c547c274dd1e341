// The pixelwise maximum over the last two frames of a step, in grey or colour. Sprites that the console can
// only show on every other frame are whole in it.
#ifndef TORCHRL_POOL_ENVS_ATARI_POOLED_FRAME_H_
#define TORCHRL_POOL_ENVS_ATARI_POOLED_FRAME_H_

#include <cstdint>
#include <vector>

#include "emulator.h"

namespace torchrl_pool::atari {

// Most rows of most games equal those of the step before. Each call leaves in `changed` which rows of the
// result it changed, and does no work for the others.
class PooledFrame {
 public:
  // channels: 1 for grey, 3 for colour. The palette must outlive this.
  PooledFrame(int height, int width, int channels, const Palette* palette);

  // The first frame of an episode.
  void Start(const std::uint8_t* screen);

  // The last frame but one of a step, then the last. stays: whether what `screen` points to is still the same
  // when SetLast or PoolEarlier follows.
  void SetEarlier(const std::uint8_t* screen, bool stays);
  void SetLast(const std::uint8_t* screen);

  // For a step of one frame: nothing to pool.
  void SetOnly(const std::uint8_t* screen);

  // Where the episode ended on the last frame of a step: that frame is not looked at, as in the reference,
  // and the one before is pooled with what was there from the step before.
  void PoolEarlier();

  const std::uint8_t* pixels() const { return pixels_.data(); }
  const std::uint8_t* changed() const { return changed_.data(); }  // [height], 0 or 1
  void MarkAll(bool changed);

  template <class Visitor>
  void VisitState(Visitor& visit) {
    visit(holds_, pixels_, earlier_, last_, paired_);
  }
  bool fits(const PooledFrame& other) const {
    return pixels_.size() == other.pixels_.size() && earlier_.size() == other.earlier_.size() &&
           last_.size() == other.last_.size() && paired_.size() == other.paired_.size();
  }

 private:
  void Colour(const std::uint8_t* screen, std::uint8_t* to) const;
  void ColourPair(const std::uint8_t* a, const std::uint8_t* b, std::uint8_t* to) const;

  int width_, channels_;
  const Palette* palette_;
  std::vector<std::uint8_t> pixels_;  // [height, width, channels], and padding
  // The frames that pixels_ was made of, as the console's own colours. A row in which they are equal, as most
  // are, is only in last_.
  std::vector<std::uint8_t> earlier_, last_;  // [height, width]
  std::vector<std::uint8_t> paired_;          // [height]: whether they differ there
  std::vector<std::uint8_t> changed_;         // [height]
  const std::uint8_t* next_earlier_ = nullptr;
  std::vector<std::uint8_t> spare_;  // what next_earlier_ points to, where the console draws over it
  // What pixels_ shows: nothing that frames could be compared with, last_, or earlier_ and last_.
  enum class Holds { kNothing, kLast, kBoth } holds_ = Holds::kNothing;
};

}  // namespace torchrl_pool::atari

#endif  // TORCHRL_POOL_ENVS_ATARI_POOLED_FRAME_H_
