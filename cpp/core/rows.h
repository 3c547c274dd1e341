// Copies of rows: the same column of consecutive envs, in two batches.
#ifndef TORCHRL_POOL_CORE_ROWS_H_
#define TORCHRL_POOL_CORE_ROWS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

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
  explicit RowCursor(std::size_t columns) : at_(columns), stride_(columns) {}

  T* const* at() const { return at_.data(); }
  std::size_t size() const { return at_.size(); }

  // To row 0 of each column, which `rows_of(i)` tells.
  template <class RowsOf>
  void Bind(const RowsOf& rows_of) {
    T** const at = at_.data();
    std::ptrdiff_t* const stride = stride_.data();
    const std::size_t size = at_.size();
    for (std::size_t i = 0; i < size; ++i) {
      const Rows rows = rows_of(i);
      at[i] = rows.base;
      stride[i] = rows.base ? static_cast<std::ptrdiff_t>(rows.stride) : 0;
    }
    row_ = 0;
  }

  void MoveTo(std::uint32_t row) {
    const auto rows = static_cast<std::ptrdiff_t>(row) - row_;
    row_ = row;
    if (rows == 1) return Move([](std::ptrdiff_t stride) { return stride; });
    if (rows != 0) Move([rows](std::ptrdiff_t stride) { return rows * stride; });
  }

 private:
  using Byte = std::conditional_t<std::is_const_v<T>, const std::byte, std::byte>;

  template <class Distance>
  void Move(const Distance& distance) {
    T** const at = at_.data();
    const std::ptrdiff_t* const stride = stride_.data();
    const std::size_t size = at_.size();
    for (std::size_t i = 0; i < size; ++i) at[i] = static_cast<Byte*>(at[i]) + distance(stride[i]);
  }

  std::vector<T*> at_;
  std::vector<std::ptrdiff_t> stride_;
  std::ptrdiff_t row_ = 0;
};

void CopyRows(Rows from, Rows to, std::size_t row_bytes, std::size_t count);

// Leaves out the rows where `mask`, a column of bytes, is not zero.
void CopyRowsWhereNot(Rows mask, Rows from, Rows to, std::size_t row_bytes, std::size_t count);

// Rows with these numbers become consecutive ones, and the other way round.
void GatherRows(Rows from, std::span<const std::uint32_t> numbers, std::byte* to, std::size_t row_bytes);
void ScatterRows(const std::byte* from, std::span<const std::uint32_t> numbers, Rows to,
                 std::size_t row_bytes);

}  // namespace torchrl_pool::core

#endif  // TORCHRL_POOL_CORE_ROWS_H_
