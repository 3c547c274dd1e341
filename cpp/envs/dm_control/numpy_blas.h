// Products of a few numbers as NumPy computes them: with the very BLAS that it brings along, whose kernels,
// and with them the last bits, depend on the processor. Where NumPy has another BLAS, sums are plain.
#ifndef TORCHRL_POOL_ENVS_DM_CONTROL_NUMPY_BLAS_H_
#define TORCHRL_POOL_ENVS_DM_CONTROL_NUMPY_BLAS_H_

#include <array>
#include <cstddef>

namespace torchrl_pool::dm_control {

using Vector = std::array<double, 3>;

// numpy.dot of two vectors.
double Dot(const double* a, const double* b, int count);
// numpy.linalg.norm.
double Norm(const double* a, int count);
template <std::size_t size>
double Norm(const std::array<double, size>& a) {
  return Norm(a.data(), size);
}
// v.dot(frame), of a vector and a 3x3 matrix.
Vector Turned(const Vector& v, const double* frame);
// rows.dot(frame), of several rows: another routine than for one.
void Turn(const double* rows, int count, const double* frame, double* out);

inline Vector Between(const double* from, const double* to) {
  return {to[0] - from[0], to[1] - from[1], to[2] - from[2]};
}

}  // namespace torchrl_pool::dm_control

#endif  // TORCHRL_POOL_ENVS_DM_CONTROL_NUMPY_BLAS_H_
