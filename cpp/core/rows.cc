#include "rows.h"

#include <cstdint>
#include <cstring>

namespace torchrl_pool::core {
namespace {

// Rows of a known size: a move each, instead of a call.
template <class T>
void CopyScalars(Rows from, Rows to, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    std::memcpy(to.base + i * to.stride, from.base + i * from.stride, sizeof(T));
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
  switch (row_bytes) {
    case 1:
      return CopyScalars<std::uint8_t>(from, to, count);
    case 4:
      return CopyScalars<std::uint32_t>(from, to, count);
    case 8:
      return CopyScalars<std::uint64_t>(from, to, count);
    default:
      for (std::size_t i = 0; i < count; ++i) {
        std::memcpy(to.base + i * to.stride, from.base + i * from.stride, row_bytes);
      }
  }
}

void CopyRowsWhereNot(Rows mask, Rows from, Rows to, std::size_t row_bytes, std::size_t count) {
  const bool packed = from.stride == row_bytes && to.stride == row_bytes && mask.stride == 1;
  if (packed && row_bytes == 1) return SelectScalars<std::uint8_t>(mask, from, to, count);
  if (packed && row_bytes == 4) return SelectScalars<std::uint32_t>(mask, from, to, count);
  if (packed && row_bytes == 8) return SelectScalars<std::uint64_t>(mask, from, to, count);
  for (std::size_t i = 0; i < count; ++i) {
    if (mask.base[i * mask.stride] != std::byte{0}) continue;
    std::memcpy(to.base + i * to.stride, from.base + i * from.stride, row_bytes);
  }
}

}  // namespace torchrl_pool::core
