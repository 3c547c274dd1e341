// Products of a few numbers as NumPy computes them: with the very BLAS that it brings along, whose kernels,
// and with them the last bits, depend on the processor. Where NumPy has another BLAS, sums are plain.
#ifndef TORCHRL_POOL_ENVS_NUMPY_BLAS_H_
#define TORCHRL_POOL_ENVS_NUMPY_BLAS_H_

#include <array>
#include <cstddef>

namespace torchrl_pool {

// numpy.dot of two vectors.
double Dot(const double* a, const double* b, int count);
// numpy.linalg.norm.
double Norm(const double* a, int count);
template <std::size_t size>
double Norm(const std::array<double, size>& a) {
  return Norm(a.data(), size);
}
// matrix @ v, of a matrix in rows.
void Product(const double* matrix, int rows, int columns, const double* v, double* out);
// v.dot(frame), of a vector and a 3x3 matrix.
std::array<double, 3> Turned(const std::array<double, 3>& v, const double* frame);
// rows.dot(frame), of several rows: another routine than for one.
void Turn(const double* rows, int count, const double* frame, double* out);

}  // namespace torchrl_pool

#endif  // TORCHRL_POOL_ENVS_NUMPY_BLAS_H_
