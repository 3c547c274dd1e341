#include "pooled_frame.h"

#include <algorithm>
#include <cstring>

#include "area_resize.h"

namespace torchrl_pool::atari {
namespace {

// Whether two rows are equal: for rows, which mostly are, faster than a call of memcmp.
bool Equal(const std::uint8_t* a, const std::uint8_t* b, std::size_t width) {
  std::uint64_t difference = 0;
  std::size_t i = 0;
  for (; i + 8 <= width; i += 8) {
    std::uint64_t x, y;
    std::memcpy(&x, a + i, 8);
    std::memcpy(&y, b + i, 8);
    difference |= x ^ y;
  }
  for (; i < width; ++i) difference |= static_cast<std::uint64_t>(a[i] ^ b[i]);
  return difference == 0;
}

}  // namespace

PooledFrame::PooledFrame(int height, int width, int channels, const Palette* palette)
    : width_(width),
      channels_(channels),
      palette_(palette),
      pixels_(static_cast<std::size_t>(height * width * channels + AreaResize::kPadding)),
      earlier_(static_cast<std::size_t>(height * width)),
      last_(earlier_.size()),
      paired_(static_cast<std::size_t>(height)),
      changed_(static_cast<std::size_t>(height)) {}

void PooledFrame::Start(const std::uint8_t* screen) {
  SetOnly(screen);
  MarkAll(true);
}

void PooledFrame::SetEarlier(const std::uint8_t* screen, bool stays) {
  next_earlier_ = screen;
  if (stays) return;
  spare_.assign(screen, screen + last_.size());
  next_earlier_ = spare_.data();
}

void PooledFrame::SetLast(const std::uint8_t* screen) {
  const auto width = static_cast<std::size_t>(width_);
  for (std::size_t y = 0, at = 0; y < changed_.size(); ++y, at += width) {
    const std::uint8_t *earlier = next_earlier_ + at, *last = screen + at;
    const bool pair = !Equal(earlier, last, width);
    changed_[y] = holds_ != Holds::kBoth || pair != (paired_[y] != 0) || !Equal(last, &last_[at], width) ||
                  (pair && !Equal(earlier, &earlier_[at], width));
    if (!changed_[y]) continue;
    std::uint8_t* to = &pixels_[at * static_cast<std::size_t>(channels_)];
    paired_[y] = pair;
    std::memcpy(&last_[at], last, width);
    if (pair) {
      std::memcpy(&earlier_[at], earlier, width);
      ColourPair(earlier, last, to);
    } else {
      Colour(last, to);
    }
  }
  holds_ = Holds::kBoth;
}

void PooledFrame::SetOnly(const std::uint8_t* screen) {
  const auto width = static_cast<std::size_t>(width_);
  for (std::size_t y = 0, at = 0; y < changed_.size(); ++y, at += width) {
    changed_[y] = holds_ != Holds::kLast || !Equal(&last_[at], screen + at, width);
    if (!changed_[y]) continue;
    std::memcpy(&last_[at], screen + at, width);
    Colour(screen + at, &pixels_[at * static_cast<std::size_t>(channels_)]);
  }
  holds_ = Holds::kLast;
}

void PooledFrame::PoolEarlier() {
  const auto width = static_cast<std::size_t>(width_);
  const auto row = width * static_cast<std::size_t>(channels_);
  std::vector<std::uint8_t> coloured(row);
  for (std::size_t y = 0; y < changed_.size(); ++y) {
    Colour(next_earlier_ + y * width, coloured.data());
    std::uint8_t* to = &pixels_[y * row];
    changed_[y] = 0;
    for (std::size_t i = 0; i < row; ++i) {
      if (coloured[i] <= to[i]) continue;
      to[i] = coloured[i];
      changed_[y] = 1;
    }
  }
  holds_ = Holds::kNothing;
}

void PooledFrame::MarkAll(bool changed) {
  std::fill(changed_.begin(), changed_.end(), static_cast<std::uint8_t>(changed));
}

// One row in colour.
void PooledFrame::Colour(const std::uint8_t* screen, std::uint8_t* to) const {
  if (channels_ == 1) {
    for (int x = 0; x < width_; ++x) to[x] = palette_->gray[screen[x]];
  } else {
    for (int x = 0; x < width_; ++x) std::copy_n(palette_->rgb[screen[x]].begin(), 3, to + 3 * x);
  }
}

// The maximum of two rows in colour.
void PooledFrame::ColourPair(const std::uint8_t* a, const std::uint8_t* b, std::uint8_t* to) const {
  if (channels_ == 1) {
    for (int x = 0; x < width_; ++x) to[x] = std::max(palette_->gray[a[x]], palette_->gray[b[x]]);
    return;
  }
  for (int x = 0; x < width_; ++x) {
    const auto &first = palette_->rgb[a[x]], &second = palette_->rgb[b[x]];
    for (std::size_t c = 0; c < 3; ++c) *to++ = std::max(first[c], second[c]);
  }
}

}  // namespace torchrl_pool::atari
