#include "rows.h"

#include <cstring>
#include <type_traits>

namespace torchrl_pool::core {
namespace {

// Calls `copy(to, from)`, a move of a known size where rows are small, for as many rows as the loop asks.
template <class Loop>
void WithCopier(std::size_t row_bytes, const Loop& loop) {
  const auto of_size = [&]<std::size_t size>(std::integral_constant<std::size_t, size>) {
    loop([](std::byte* to, const std::byte* from) { std::memcpy(to, from, size); });
  };
  switch (row_bytes) {
    case 1:
      return of_size(std::integral_constant<std::size_t, 1>());
    case 4:
      return of_size(std::integral_constant<std::size_t, 4>());
    case 8:
      return of_size(std::integral_constant<std::size_t, 8>());
    case 16:
      return of_size(std::integral_constant<std::size_t, 16>());
    default:
      loop([row_bytes](std::byte* to, const std::byte* from) { std::memcpy(to, from, row_bytes); });
  }
}

// Without branches, so that the compiler can use vectors.
template <class T>
void SelectScalars(Rows mask, Rows from, Rows to, std::size_t count) {
  const auto* source = reinterpret_cast<const T*>(from.base);
  auto* target = reinterpret_cast<T*>(to.base);
  for (std::size_t i = 0; i < count; ++i) {
    target[i] = mask.base[i] != std::byte{0} ? target[i] : source[i];
  }
}

}  // namespace

void CopyRows(Rows from, Rows to, std::size_t row_bytes, std::size_t count) {
  if (from.stride == row_bytes && to.stride == row_bytes) {
    std::memcpy(to.base, from.base, row_bytes * count);
    return;
  }
  WithCopier(row_bytes, [&](const auto& copy) {
    for (std::size_t i = 0; i < count; ++i) copy(to.base + i * to.stride, from.base + i * from.stride);
  });
}

void CopyRowsWhereNot(Rows mask, Rows from, Rows to, std::size_t row_bytes, std::size_t count) {
  const bool packed = from.stride == row_bytes && to.stride == row_bytes && mask.stride == 1;
  if (packed && row_bytes == 1) return SelectScalars<std::uint8_t>(mask, from, to, count);
  if (packed && row_bytes == 4) return SelectScalars<std::uint32_t>(mask, from, to, count);
  if (packed && row_bytes == 8) return SelectScalars<std::uint64_t>(mask, from, to, count);
  if (mask.stride == 1) {  // few are set: whole stretches between them
    for (std::size_t i = 0; i < count; ++i) {
      const void* const set = std::memchr(mask.base + i, 1, count - i);
      const std::size_t end =
          set ? static_cast<std::size_t>(static_cast<const std::byte*>(set) - mask.base) : count;
      CopyRows(from.From(i), to.From(i), row_bytes, end - i);
      i = end;
    }
    return;
  }
  WithCopier(row_bytes, [&](const auto& copy) {
    for (std::size_t i = 0; i < count; ++i) {
      if (mask.base[i * mask.stride] == std::byte{0})
        copy(to.base + i * to.stride, from.base + i * from.stride);
    }
  });
}

void GatherRows(Rows from, std::span<const std::uint32_t> numbers, std::byte* to, std::size_t row_bytes) {
  if (numbers.empty()) return;
  if (numbers.back() - numbers.front() == numbers.size() - 1) {
    return CopyRows(from.From(numbers.front()), {to, row_bytes}, row_bytes, numbers.size());
  }
  WithCopier(row_bytes, [&](const auto& copy) {
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      copy(to + i * row_bytes, from.base + numbers[i] * from.stride);
    }
  });
}

void ScatterRows(const std::byte* from, std::span<const std::uint32_t> numbers, Rows to,
                 std::size_t row_bytes) {
  WithCopier(row_bytes, [&](const auto& copy) {
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      copy(to.base + numbers[i] * to.stride, from + i * row_bytes);
    }
  });
}

}  // namespace torchrl_pool::core
