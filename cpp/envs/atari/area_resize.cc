#include "area_resize.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#if defined(__x86_64__)
#include <tmmintrin.h>
#endif

namespace torchrl_pool::atari {
namespace {

// To the nearest integer, half to even, for 0 <= x < 2^22: the sum has no bits left below one.
float Round(float x) {
  constexpr float kMagic = 12582912.0f;  // 1.5 * 2^23
  return (x + kMagic) - kMagic;
}

}  // namespace

AreaResize::AreaResize(Size from, Size to, int channels, bool allow_simd)
    : from_(from), to_(to), channels_(channels) {
  if (from.width % to.width == 0 && from.height % to.height == 0) {
    scale_x_ = from.width / to.width;
    scale_y_ = from.height / to.height;
  }
  x_ = MakeAxis(from.width, to.width);
  y_ = MakeAxis(from.height, to.height);
  MakeTaps();
#if defined(__x86_64__)
  if (allow_simd && __builtin_cpu_supports("ssse3")) MakeGroups();
#else
  (void)allow_simd;
#endif
}

void AreaResize::MakeTaps() {
  const auto row = static_cast<std::size_t>(to_.width * channels_);
  tap_offsets_.resize(row * static_cast<std::size_t>(x_.longest));
  tap_weights_.resize(tap_offsets_.size());
  for (int tap = 0; tap < x_.longest; ++tap) {
    for (int x = 0; x < to_.width; ++x) {
      const Span& span = x_.spans[static_cast<std::size_t>(x)];
      const bool used = tap < span.count;
      for (int channel = 0; channel < channels_; ++channel) {
        const auto i =
            static_cast<std::size_t>(tap) * row + static_cast<std::size_t>(x * channels_ + channel);
        tap_offsets_[i] = (span.first + (used ? tap : 0)) * channels_ + channel;
        tap_weights_[i] = used ? x_.weights[static_cast<std::size_t>(span.weights + tap)] : 0.0f;
      }
    }
  }
}

void AreaResize::MakeGroups() {
  const auto row = static_cast<std::size_t>(to_.width * channels_);
  const auto taps = static_cast<std::size_t>(x_.longest);
  for (std::size_t begin = 0; begin < row; begin += 4) {
    const std::size_t count = std::min<std::size_t>(4, row - begin);
    const std::int32_t offset = *std::min_element(&tap_offsets_[begin], &tap_offsets_[begin] + count);
    group_offsets_.push_back(offset);
    for (std::size_t tap = 0; tap < taps; ++tap) {
      Tap& group = group_taps_.emplace_back();
      std::fill(std::begin(group.shuffle), std::end(group.shuffle), std::uint8_t{0x80});  // gives a zero
      for (std::size_t i = 0; i < count; ++i) {
        const std::int32_t place = tap_offsets_[tap * row + begin + i] - offset;
        if (place >= 16) {
          group_offsets_.clear();
          group_taps_.clear();
          return;
        }
        group.shuffle[4 * i] = static_cast<std::uint8_t>(place);
        group.weights[i] = tap_weights_[tap * row + begin + i];
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
  constexpr std::size_t kOnStack = 256 * 3;  // no screen is wider, even with what the last group adds
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

#if defined(__x86_64__)
// As Horizontal, four values at a time.
__attribute__((target("ssse3"))) void AreaResize::HorizontalSimd(const std::uint8_t* from, float* to) const {
  const Tap* tap = group_taps_.data();
  for (const std::int32_t offset : group_offsets_) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + offset));
    __m128 sum = _mm_setzero_ps();
    for (int i = 0; i < x_.longest; ++i, ++tap) {
      const __m128i shuffle = _mm_loadu_si128(reinterpret_cast<const __m128i*>(tap->shuffle));
      const __m128 values = _mm_cvtepi32_ps(_mm_shuffle_epi8(bytes, shuffle));
      sum = _mm_add_ps(sum, _mm_mul_ps(values, _mm_loadu_ps(tap->weights)));
    }
    _mm_storeu_ps(to, sum);
    to += 4;
  }
}
#else
void AreaResize::HorizontalSimd(const std::uint8_t* from, float* to) const { Horizontal(from, to); }
#endif

// sum, line: room for a row of the result. line_of: the row of the source that `line` holds.
void AreaResize::WeightedMean(const std::uint8_t* from, int y, std::uint8_t* to, float* sum, float* line,
                              int* line_of) const {
  const int width = to_.width * channels_;
  const Span& span = y_.spans[static_cast<std::size_t>(y)];
  for (int j = 0; j < span.count; ++j) {
    const int row = span.first + j;
    if (*line_of != row) {
      const std::uint8_t* source = from + row * from_.width * channels_;
      group_offsets_.empty() ? Horizontal(source, line) : HorizontalSimd(source, line);
      *line_of = row;
    }
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
