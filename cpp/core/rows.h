// Copies of rows: the same column of consecutive envs, in two batches.
#ifndef TORCHRL_POOL_CORE_ROWS_H_
#define TORCHRL_POOL_CORE_ROWS_H_

#include <cstddef>

namespace torchrl_pool::core {

// Where a column's row of one env lies, and how far it is from there to the next env's.
struct Rows {
  std::byte* base;
  std::size_t stride;  // bytes

  Rows From(std::size_t row) const { return {base + row * stride, stride}; }
};

void CopyRows(Rows from, Rows to, std::size_t row_bytes, std::size_t count);

// Leaves out the rows where `mask`, a column of bytes, is not zero.
void CopyRowsWhereNot(Rows mask, Rows from, Rows to, std::size_t row_bytes, std::size_t count);

}  // namespace torchrl_pool::core

#endif  // TORCHRL_POOL_CORE_ROWS_H_
