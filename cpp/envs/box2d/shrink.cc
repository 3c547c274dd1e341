#include "shrink.h"

#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include <algorithm>
#include <cstring>

namespace torchrl_pool::box2d {
namespace {

constexpr int kWhole = 0x4000;

std::uint16_t Part(unsigned value, std::uint16_t weight) {
  return static_cast<std::uint16_t>((value << 2) * weight >> 16);
}
std::uint8_t Mean(std::uint16_t sum, std::uint16_t reciprocal) {
  return static_cast<std::uint8_t>(std::min(static_cast<unsigned>(sum) * reciprocal >> 16, 255u));
}

#ifdef __SSE2__
// Sums of the four channels in 16 bits.
class Sum {
 public:
  void Add(const std::uint8_t* pixels, int count) {
    const __m128i zero = _mm_setzero_si128();
    __m128i low = sum_, high = zero;
    int i = 0;
    for (; i + 4 <= count; i += 4, pixels += 16) {
      const __m128i four = _mm_loadu_si128(reinterpret_cast<const __m128i*>(pixels));
      low = _mm_add_epi16(low, _mm_unpacklo_epi8(four, zero));
      high = _mm_add_epi16(high, _mm_unpackhi_epi8(four, zero));
    }
    low = _mm_add_epi16(low, high);
    for (; i < count; ++i, pixels += 4) low = _mm_add_epi16(low, Load(pixels));
    sum_ = _mm_add_epi16(low, _mm_srli_si128(low, 8));
  }
  // Writes the mean with a part of one more pixel, of which the rest stays.
  void Finish(const std::uint8_t* pixel, std::uint16_t left, std::uint16_t rest, std::uint16_t reciprocal,
              std::uint8_t* out) {
    const __m128i wide = _mm_slli_epi16(Load(pixel), 2);
    const __m128i total = _mm_add_epi16(_mm_mulhi_epu16(wide, Broadcast(left)), sum_);
    const __m128i mean = _mm_mulhi_epu16(total, Broadcast(reciprocal));
    const int bytes = _mm_cvtsi128_si32(_mm_packus_epi16(mean, mean));
    std::memcpy(out, &bytes, 4);
    sum_ = _mm_move_epi64(_mm_mulhi_epu16(wide, Broadcast(rest)));
  }

 private:
  static __m128i Load(const std::uint8_t* pixel) {
    int bytes;
    std::memcpy(&bytes, pixel, 4);
    return _mm_unpacklo_epi8(_mm_cvtsi32_si128(bytes), _mm_setzero_si128());
  }
  static __m128i Broadcast(std::uint16_t value) { return _mm_set1_epi16(static_cast<short>(value)); }
  __m128i sum_ = _mm_setzero_si128();  // in the lower half; nothing, or what does not count, in the upper
};
#else
class Sum {
 public:
  void Add(const std::uint8_t* pixels, int count) {
    for (int i = 0; i < 4 * count; ++i) sum_[i % 4] = static_cast<std::uint16_t>(sum_[i % 4] + pixels[i]);
  }
  void Finish(const std::uint8_t* pixel, std::uint16_t left, std::uint16_t rest, std::uint16_t reciprocal,
              std::uint8_t* out) {
    for (int c = 0; c < 4; ++c) {
      out[c] = Mean(static_cast<std::uint16_t>(sum_[c] + Part(pixel[c], left)), reciprocal);
      sum_[c] = Part(pixel[c], rest);
    }
  }

 private:
  std::uint16_t sum_[4] = {};
};
#endif

}  // namespace

Shrinker::Shrinker(ImageSize from, ImageSize to)
    : to_(to),
      row_bytes_(4 * from.width),
      across_(Shares(from.width, to.width)),
      down_(Shares(from.height, to.height)),
      across_reciprocal_(Reciprocal(from.width, to.width)),
      down_reciprocal_(Reciprocal(from.height, to.height)),
      row_(static_cast<std::size_t>(4 * to.width)),
      sums_(row_.size()) {}

std::vector<Shrinker::Share> Shrinker::Shares(std::int64_t from, std::int64_t to) {
  const int space = static_cast<int>(kWhole * from / to);
  std::vector<Share> shares;
  int whole = 0, left = space;
  for (std::int64_t i = 0; i < from; ++i) {
    if (left > kWhole) {
      ++whole;
      left -= kWhole;
      continue;
    }
    const int rest = kWhole - left;
    shares.push_back({whole, static_cast<std::uint16_t>(left), static_cast<std::uint16_t>(rest)});
    whole = 0;
    left = space - rest;
  }
  return shares;
}

std::uint16_t Shrinker::Reciprocal(std::int64_t from, std::int64_t to) {
  return static_cast<std::uint16_t>(kWhole * kWhole * 4 / static_cast<int>(kWhole * from / to));
}

void Shrinker::ShrinkRow(const std::uint8_t* pixels, std::uint8_t* row) const {
  Sum sum;
  for (const Share& share : across_) {
    sum.Add(pixels, share.whole);
    pixels += 4 * share.whole;
    sum.Finish(pixels, share.left, share.rest, across_reciprocal_, row);
    pixels += 4;
    row += 4;
  }
}

void Shrinker::Run(const std::uint8_t* pixels, std::uint8_t* rgb) {
  std::fill(sums_.begin(), sums_.end(), std::uint16_t{0});
  for (const Share& share : down_) {
    for (std::int32_t i = 0; i < share.whole; ++i, pixels += row_bytes_) {
      ShrinkRow(pixels, row_.data());
      for (std::size_t k = 0; k < sums_.size(); ++k)
        sums_[k] = static_cast<std::uint16_t>(sums_[k] + row_[k]);
    }
    ShrinkRow(pixels, row_.data());
    pixels += row_bytes_;
    for (std::size_t k = 0; k < sums_.size(); ++k) {
      const auto total = static_cast<std::uint16_t>(sums_[k] + Part(row_[k], share.left));
      sums_[k] = Part(row_[k], share.rest);
      row_[k] = Mean(total, down_reciprocal_);
    }
    for (std::int64_t x = 0; x < to_.width; ++x, rgb += 3)
      std::memcpy(rgb, &row_[static_cast<std::size_t>(4 * x)], 3);
  }
}

}  // namespace torchrl_pool::box2d
