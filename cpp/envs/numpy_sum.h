// Sums as NumPy computes them.
#ifndef TORCHRL_POOL_ENVS_NUMPY_SUM_H_
#define TORCHRL_POOL_ENVS_NUMPY_SUM_H_

#include <cstddef>

namespace torchrl_pool {

// numpy.sum of a contiguous array whose i-th element is at(i): pairwise, with eight running sums in blocks of
// up to 128 (numpy/_core/src/umath/loops_utils.h).
template <class T, class At>
T PairwiseSum(std::size_t first, std::size_t count, const At& at) {
  if (count < 8) {
    T sum = 0;
    for (std::size_t i = 0; i < count; ++i) sum += at(first + i);
    return sum;
  }
  if (count > 128) {
    const std::size_t half = count / 2 / 8 * 8;
    return PairwiseSum<T>(first, half, at) + PairwiseSum<T>(first + half, count - half, at);
  }
  T sums[8];
  for (std::size_t i = 0; i < 8; ++i) sums[i] = at(first + i);
  std::size_t i = 8;
  for (; i + 8 <= count; i += 8) {
    for (std::size_t k = 0; k < 8; ++k) sums[k] += at(first + i + k);
  }
  T sum = ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
  for (; i < count; ++i) sum += at(first + i);
  return sum;
}

template <class T>
T Sum(const T* values, std::size_t count) {
  return PairwiseSum<T>(0, count, [values](std::size_t i) { return values[i]; });
}

// numpy.sum(numpy.square(values)).
template <class T>
T SumOfSquares(const T* values, std::size_t count) {
  return PairwiseSum<T>(0, count, [values](std::size_t i) { return values[i] * values[i]; });
}

}  // namespace torchrl_pool

#endif  // TORCHRL_POOL_ENVS_NUMPY_SUM_H_
