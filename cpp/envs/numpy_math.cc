#include "numpy_math.h"

namespace torchrl_pool {
namespace {

// cos (quadrant_shift 1) or sin (0) of x.
float Trigonometric(float x, int quadrant_shift) {
  const float quarters = std::nearbyint(x * 0x1.45f306p-1f);  // 2 / pi
  float r = std::fma(quarters, -0x1.921fb0p+00f, x);
  r = std::fma(quarters, -0x1.5110b4p-22f, r);
  r = std::fma(quarters, -0x1.846988p-48f, r);
  const float r2 = r * r;
  const int quadrant = static_cast<int>(quarters) + quadrant_shift;
  float value;
  if (quadrant & 1) {
    value = std::fma(0x1.98e616p-16f, r2, -0x1.6c06dcp-10f);
    value = std::fma(value, r2, 0x1.55553cp-05f);
    value = std::fma(value, r2, -0x1.000000p-01f);
    value = std::fma(value, r2, 0x1.000000p+00f);
  } else {
    value = std::fma(0x1.7d3bbcp-19f, r2, -0x1.a06bbap-13f);
    value = std::fma(value, r2, 0x1.11119ap-07f);
    value = std::fma(value, r2, -0x1.555556p-03f);
    value = std::fma(value * r2, r, r);
  }
  return quadrant & 2 ? -value : value;
}

}  // namespace

// Beyond these numbers, where the reduction loses digits, NumPy calls the C library.
float CosFloat32(float x) { return std::abs(x) > 71476.0625f ? std::cos(x) : Trigonometric(x, 1); }
float SinFloat32(float x) { return std::abs(x) > 117435.992f ? std::sin(x) : Trigonometric(x, 0); }

}  // namespace torchrl_pool
