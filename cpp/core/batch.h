// Where the tensors of a batch lie.
#ifndef TORCHRL_POOL_CORE_BATCH_H_
#define TORCHRL_POOL_CORE_BATCH_H_

#include <cstddef>
#include <span>
#include <vector>

#include "cache_line.h"
#include "rows.h"

namespace torchrl_pool::core {

// Where the columns of one batch lie. A null base: the column is not wanted.
struct Batch {
  ApartVector<std::byte*> base;
  ApartVector<std::size_t> row_bytes;
  ApartVector<std::size_t> stride;  // bytes from a row to the next
  bool is_packed = true;            // each row follows the one before

  void AddColumn(std::size_t bytes) {
    base.push_back(nullptr);
    row_bytes.push_back(bytes);
    stride.push_back(bytes);
  }
  // Copied into the vector's own memory, which shares no cache line with anything else.
  void SetBases(std::span<std::byte* const> addresses) { base.assign(addresses.begin(), addresses.end()); }
  void SetStrides(const std::vector<std::size_t>& bytes) {
    stride.assign(bytes.begin(), bytes.end());
    is_packed = false;
  }
  // Where bases are those of this row, and not of row 0.
  void BeginAt(std::size_t row) {
    for (std::size_t i = 0; i < base.size(); ++i) {
      if (base[i]) base[i] -= row * stride[i];
    }
  }
  std::byte* Row(std::size_t column, std::size_t row) const {
    return base[column] ? base[column] + row * stride[column] : nullptr;
  }
  // The column is not wanted: all of its rows are null.
  Rows RowsFrom(std::size_t column, std::size_t row) const {
    return base[column] ? Rows{base[column], stride[column]}.From(row) : Rows{nullptr, 0};
  }
};

}  // namespace torchrl_pool::core

#endif  // TORCHRL_POOL_CORE_BATCH_H_
