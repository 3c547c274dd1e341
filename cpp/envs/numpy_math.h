// The elementary functions as NumPy computes them, where they differ from C++'s.
#ifndef TORCHRL_POOL_ENVS_NUMPY_MATH_H_
#define TORCHRL_POOL_ENVS_NUMPY_MATH_H_

#include <cmath>

namespace torchrl_pool {

// x ** 2 of a NumPy scalar or of math.pow: a call of libm's pow, which is not always the rounded x * x. The
// exponent is volatile because compilers turn pow(x, 2.0) into that product.
inline double Square(double x) {
  const volatile double exponent = 2.0;
  return std::pow(x, exponent);
}
inline float Square(float x) {
  const volatile float exponent = 2.0f;
  return std::pow(x, exponent);
}

// numpy.float64 % for a positive divisor: the result has the divisor's sign.
inline double Modulo(double x, double divisor) {
  const double remainder = std::fmod(x, divisor);
  if (remainder == 0) return 0;
  return remainder < 0 ? remainder + divisor : remainder;
}

// cos and sin of a float32 as NumPy's vector loops give them (numpy/_core/src/umath/
// loops_trigonometric): reduction by multiples of pi/2 in three parts (Cody and Waite), then a polynomial,
// all with fused multiply-adds. They are up to 1.5 ulp away from the rounded true value, so libm's cosf
// does not equal them. Exact where NumPy finds FMA (any x86 since 2013, any 64-bit Arm); for the few
// processors without it NumPy calls libm. As it does everywhere for large numbers, and so do these.
float CosFloat32(float x);
float SinFloat32(float x);

}  // namespace torchrl_pool

#endif  // TORCHRL_POOL_ENVS_NUMPY_MATH_H_
