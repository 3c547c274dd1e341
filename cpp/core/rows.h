// Copies of rows: the same column of consecutive envs, in two batches.
#ifndef TORCHRL_POOL_CORE_ROWS_H_
#define TORCHRL_POOL_CORE_ROWS_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "cache_line.h"

namespace torchrl_pool::core {

// Where a column's row of one env lies, and how far it is from there to the next env's.
struct Rows {
  std::byte* base;
  std::size_t stride;  // bytes

  Rows From(std::size_t row) const { return {base + row * stride, stride}; }
};

// Calls `act(first, count)` for each stretch of consecutive numbers; `envs` ascends.
template <class Act>
void ForEachRun(std::span<const std::uint32_t> envs, Act&& act) {
  for (std::size_t begin = 0; begin < envs.size();) {
    std::size_t end = envs.size();
    if (envs[end - 1] - envs[begin] != end - 1 - begin) {
      end = begin + 1;
      while (end < envs.size() && envs[end] == envs[end - 1] + 1) ++end;
    }
    act(envs[begin], static_cast<std::uint32_t>(end - begin));
    begin = end;
  }
}

// Pointers to one env's row of several columns, which go from env to env. A column without memory stays null.
template <class T>
class RowCursor {
 public:
  explicit RowCursor(std::size_t columns) : at_(columns), rows_(columns) {}

  T* const* at() const { return at_.data(); }
  std::size_t size() const { return at_.size(); }
  Rows rows(std::size_t i) const { return rows_[i]; }  // from row 0 on

  // To the rows from 0 on of each column, which `rows_of(i)` tells: {nullptr, 0} without memory.
  template <class RowsOf>
  void Bind(const RowsOf& rows_of) {
    Rows* const rows = rows_.data();
    const std::size_t columns = size();
    for (std::size_t i = 0; i < columns; ++i) rows[i] = rows_of(i);
  }

  void MoveTo(std::uint32_t row) {
    T** const at = at_.data();
    const Rows* const rows = rows_.data();
    const std::size_t columns = size();
    for (std::size_t i = 0; i < columns; ++i) at[i] = rows[i].From(row).base;
  }

 private:
  ApartVector<T*> at_;
  ApartVector<Rows> rows_;  // from row 0 on
};

void CopyRows(Rows from, Rows to, std::size_t row_bytes, std::size_t count);

// Leaves out the rows where `mask`, a column of flags (0 or 1), is set.
void CopyRowsWhereNot(Rows mask, Rows from, Rows to, std::size_t row_bytes, std::size_t count);

// Rows with these numbers, which ascend, become consecutive ones. And the other way round, in any order.
void GatherRows(Rows from, std::span<const std::uint32_t> numbers, std::byte* to, std::size_t row_bytes);
void ScatterRows(const std::byte* from, std::span<const std::uint32_t> numbers, Rows to,
                 std::size_t row_bytes);

}  // namespace torchrl_pool::core

#endif  // TORCHRL_POOL_CORE_ROWS_H_
