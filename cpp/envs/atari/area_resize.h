// Shrinking pictures as OpenCV's INTER_AREA does it for 8-bit images, bit for bit: each pixel of the result
// is the mean over the rectangle that it covers. Where both factors are whole numbers the sum is exact; else
// float32 sums grow row by row, first along x, then along y, and half rounds to even.
#ifndef TORCHRL_POOL_ENVS_ATARI_AREA_RESIZE_H_
#define TORCHRL_POOL_ENVS_ATARI_AREA_RESIZE_H_

#include <cstdint>
#include <vector>

namespace torchrl_pool::atari {

// Tables for one pair of sizes, shared by all envs that have them.
class AreaResize {
 public:
  struct Size {
    int height, width;
    bool operator==(const Size&) const = default;
  };

  static constexpr int kPadding = 16;

  AreaResize() = default;

  // Shrinks only: neither side of `to` may be longer than that of `from`. allow_simd: false takes the plain
  // loops, which give the same bits, even where the processor has better.
  AreaResize(Size from, Size to, int channels, bool allow_simd = true);

  // Writes the rows of `to` that depend on a row of `from` with changed[row] set; the others stay.
  // from: [from.height, from.width, channels] and kPadding readable bytes more, to: [to.height, to.width,
  // channels].
  void operator()(const std::uint8_t* from, const std::uint8_t* changed, std::uint8_t* to) const;

 private:
  // What a pixel of the result takes from the source along one axis: pixels first … first + count - 1, with
  // weights from `weights` on.
  struct Span {
    int first, count, weights;
  };
  struct Axis {
    std::vector<Span> spans;
    std::vector<float> weights;
    int longest = 0;
  };
  static Axis MakeAxis(int from, int to);

  void MakeTaps();
  void MakeGroups();
  void Horizontal(const std::uint8_t* from, float* to) const;
  void HorizontalSimd(const std::uint8_t* from, float* to) const;
  void Mean(const std::uint8_t* from, int y, std::uint8_t* to) const;
  void WeightedMean(const std::uint8_t* from, int y, std::uint8_t* to, float* sum, float* line,
                    int* line_of) const;

  Size from_{}, to_{};
  int channels_ = 1;
  int scale_x_ = 0, scale_y_ = 0;  // where both are whole numbers, else 0
  Axis x_, y_;
  // The same weights along x for all values of a row at once, tap by tap: where a value has fewer taps it
  // adds zeros.
  std::vector<std::int32_t> tap_offsets_;
  std::vector<float> tap_weights_;
  // And by groups of four values, all of whose taps lie within 16 bytes: where they begin, and for each tap
  // where in them its four bytes are. Empty where taps lie too far apart, or without the instructions.
  struct Tap {
    std::uint8_t shuffle[16];
    float weights[4];
  };
  std::vector<std::int32_t> group_offsets_;
  std::vector<Tap> group_taps_;
};

}  // namespace torchrl_pool::atari

#endif  // TORCHRL_POOL_ENVS_ATARI_AREA_RESIZE_H_
