#include "area_resize.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace torchrl_pool::atari {
namespace {

// To the nearest integer, half to even, for 0 <= x < 2^22: the sum has no bits left below one.
float Round(float x) {
  constexpr float kMagic = 12582912.0f;  // 1.5 * 2^23
  return (x + kMagic) - kMagic;
}

}  // namespace

AreaResize::AreaResize(Size from, Size to, int channels) : from_(from), to_(to), channels_(channels) {
  if (from.width % to.width == 0 && from.height % to.height == 0) {
    scale_x_ = from.width / to.width;
    scale_y_ = from.height / to.height;
  }
  x_ = MakeAxis(from.width, to.width);
  y_ = MakeAxis(from.height, to.height);
  const auto row = static_cast<std::size_t>(to.width * channels);
  tap_offsets_.resize(row * static_cast<std::size_t>(x_.longest));
  tap_weights_.resize(tap_offsets_.size());
  for (int tap = 0; tap < x_.longest; ++tap) {
    for (int x = 0; x < to.width; ++x) {
      const Span& span = x_.spans[static_cast<std::size_t>(x)];
      const bool used = tap < span.count;
      for (int channel = 0; channel < channels; ++channel) {
        const auto i = static_cast<std::size_t>(tap) * row + static_cast<std::size_t>(x * channels + channel);
        tap_offsets_[i] = (span.first + (used ? tap : 0)) * channels + channel;
        tap_weights_[i] = used ? x_.weights[static_cast<std::size_t>(span.weights + tap)] : 0.0f;
      }
    }
  }
}

AreaResize::Axis AreaResize::MakeAxis(int from, int to) {
  // OpenCV inverts the inverse; from / to may differ in the last bit.
  const double scale = 1.0 / (static_cast<double>(to) / from);
  constexpr double kSliver = 1e-3;  // less than this of a pixel does not count
  Axis axis;
  for (int i = 0; i < to; ++i) {
    const double begin = i * scale;
    const double end = begin + scale;
    const double length = std::min(scale, from - begin);
    const int last = std::min(static_cast<int>(std::floor(end)), from - 1);
    const int first = std::min(static_cast<int>(std::ceil(begin)), last);
    Span span{first, 0, static_cast<int>(axis.weights.size())};
    const auto add = [&](double weight) {
      axis.weights.push_back(static_cast<float>(weight));
      ++span.count;
    };
    if (first - begin > kSliver) {
      add((first - begin) / length);
      --span.first;
    }
    for (int j = first; j < last; ++j) add(1.0 / length);
    if (end - last > kSliver) add(std::min(std::min(end - last, 1.0), length) / length);
    axis.spans.push_back(span);
    axis.longest = std::max(axis.longest, span.count);
  }
  return axis;
}

void AreaResize::operator()(const std::uint8_t* from, const std::uint8_t* changed, std::uint8_t* to) const {
  const auto width = static_cast<std::size_t>(to_.width * channels_);
  constexpr std::size_t kOnStack = 256 * 3;
  float stack[2 * kOnStack];
  float* sum = stack;
  float* line = stack + kOnStack;
  int line_of = -1;
  for (int y = 0; y < to_.height; ++y, to += width) {
    const Span& span = y_.spans[static_cast<std::size_t>(y)];
    if (!std::memchr(changed + span.first, 1, static_cast<std::size_t>(span.count))) continue;
    if (from_ == to_) {
      std::memcpy(to, from + static_cast<std::size_t>(y) * width, width);
    } else if (scale_x_ > 0) {
      Mean(from, y, to);
    } else {
      WeightedMean(from, y, to, sum, line, &line_of);
    }
  }
}

// Whole factors: the mean of a rectangle of whole pixels.
void AreaResize::Mean(const std::uint8_t* from, int y, std::uint8_t* to) const {
  const int row = from_.width * channels_;
  const float inverse = 1.0f / static_cast<float>(scale_x_ * scale_y_);
  const bool two_by_two = scale_x_ == 2 && scale_y_ == 2;  // OpenCV rounds half up there
  from += y * scale_y_ * row;
  for (int x = 0; x < to_.width; ++x) {
    for (int channel = 0; channel < channels_; ++channel) {
      int sum = 0;
      for (int j = 0; j < scale_y_; ++j) {
        for (int i = 0; i < scale_x_; ++i) sum += from[j * row + (x * scale_x_ + i) * channels_ + channel];
      }
      const float mean =
          two_by_two ? static_cast<float>((sum + 2) >> 2) : Round(static_cast<float>(sum) * inverse);
      to[x * channels_ + channel] = static_cast<std::uint8_t>(mean);
    }
  }
}

// One row of the source, shrunk along x.
void AreaResize::Horizontal(const std::uint8_t* from, float* to) const {
  const int width = to_.width * channels_;
  const std::int32_t* offsets = tap_offsets_.data();
  const float* weights = tap_weights_.data();
  for (int x = 0; x < width; ++x) to[x] = 0.0f + static_cast<float>(from[offsets[x]]) * weights[x];
  for (int tap = 1; tap < x_.longest; ++tap) {
    offsets += width;
    weights += width;
    for (int x = 0; x < width; ++x) to[x] += static_cast<float>(from[offsets[x]]) * weights[x];
  }
}

// sum, line: room for a row of the result. line_of: the row of the source that `line` holds.
void AreaResize::WeightedMean(const std::uint8_t* from, int y, std::uint8_t* to, float* sum, float* line,
                              int* line_of) const {
  const int width = to_.width * channels_;
  const Span& span = y_.spans[static_cast<std::size_t>(y)];
  for (int j = 0; j < span.count; ++j) {
    const int row = span.first + j;
    if (*line_of != row) Horizontal(from + row * from_.width * channels_, line);
    *line_of = row;
    const float weight = y_.weights[static_cast<std::size_t>(span.weights + j)];
    if (j == 0) {
      for (int x = 0; x < width; ++x) sum[x] = weight * line[x];
    } else {
      for (int x = 0; x < width; ++x) sum[x] += weight * line[x];
    }
  }
  for (int x = 0; x < width; ++x) to[x] = static_cast<std::uint8_t>(static_cast<int>(Round(sum[x])));
}

}  // namespace torchrl_pool::atari
