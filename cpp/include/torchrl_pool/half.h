// Numbers of 16 bits, which C++20 has no type for.
#ifndef TORCHRL_POOL_HALF_H_
#define TORCHRL_POOL_HALF_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#pragma GCC visibility push(hidden)  // the parts of two plugins must not merge in one process
namespace torchrl_pool {

// A float16, IEEE 754's binary16, as it lies in a tensor. It is for keeping: one calculates in float.
class Half {
 public:
  Half() = default;
  // The nearest one, of two that are as near the one whose last bit is 0; infinity from 65520 on.
  explicit Half(double value) : bits_(std::signbit(value) ? kSign : 0) {
    const double magnitude = std::abs(value);
    if (std::isnan(value)) {
      bits_ |= kInfinity | kQuiet;
    } else if (magnitude >= kTooLarge) {
      bits_ |= kInfinity;
    } else if (magnitude > 0) {
      const int exponent = std::max(std::ilogb(magnitude), kLeastExponent);
      // Of what the last bit stands for. A carry out of the mantissa adds to the exponent, as it should.
      const double units = std::nearbyint(std::ldexp(magnitude, kMantissaBits - exponent));
      bits_ |= static_cast<std::uint16_t>(((exponent - kLeastExponent) << kMantissaBits) +
                                          static_cast<int>(units));
    }
  }

  operator float() const {  // NOLINT: each is a float
    const int exponent = (bits_ & kInfinity) >> kMantissaBits;
    const int mantissa = bits_ & (kImplicitBit - 1);
    float magnitude = 0;
    if (exponent == kInfinity >> kMantissaBits) {
      magnitude =
          mantissa != 0 ? std::numeric_limits<float>::quiet_NaN() : std::numeric_limits<float>::infinity();
    } else {
      magnitude = std::ldexp(static_cast<float>(exponent > 0 ? mantissa + kImplicitBit : mantissa),
                             std::max(exponent, 1) - 1 + kLeastExponent - kMantissaBits);
    }
    return (bits_ & kSign) != 0 ? -magnitude : magnitude;
  }

 private:
  static constexpr int kMantissaBits = 10, kImplicitBit = 1 << kMantissaBits, kLeastExponent = -14;
  static constexpr std::uint16_t kSign = 0x8000, kInfinity = 0x7c00, kQuiet = 0x0200;
  static constexpr double kTooLarge = 65520;

  std::uint16_t bits_ = 0;
};
static_assert(sizeof(Half) == 2);

}  // namespace torchrl_pool
#pragma GCC visibility pop

#endif  // TORCHRL_POOL_HALF_H_
