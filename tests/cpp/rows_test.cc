// Copies of rows of every size, packed and apart, leave alone what lies between and beside them.
#include "rows.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "check.h"

namespace torchrl_pool::core {
namespace {

constexpr std::size_t kCount = 5;
constexpr std::byte kUntouched{0xa5};

struct Block {
  Block(std::size_t row_bytes, std::size_t padding)
      : stride(row_bytes + padding), memory(kCount * stride / sizeof(std::uint64_t) + 1) {
    bytes = reinterpret_cast<std::byte*>(memory.data());
    std::fill_n(bytes, kCount * stride, kUntouched);
  }
  Rows rows() const { return {bytes, stride}; }

  std::size_t stride;
  std::vector<std::uint64_t> memory;  // aligned for every dtype
  std::byte* bytes;
};

// Checks every byte of `to` for rows of which those in `mask` were left out.
void CheckCopied(const Block& from, const Block& to, std::size_t row_bytes, const std::vector<int>& mask) {
  for (std::size_t row = 0; row < kCount; ++row) {
    for (std::size_t k = 0; k < to.stride; ++k) {
      const bool copied = k < row_bytes && mask[row] == 0;
      const std::byte expected = copied ? from.bytes[row * from.stride + k] : kUntouched;
      CHECK_EQ(to.bytes[row * to.stride + k], expected);
    }
  }
}

TEST(RowsOfEverySizeAreCopied) {
  const std::vector<int> mask = {0, 1, 0, 0, 1};
  for (const std::size_t row_bytes : {1u, 4u, 8u, 12u, 100u}) {
    for (const std::size_t apart : {0u, 8u, 24u}) {
      for (const std::size_t mask_apart : {0u, 7u}) {
        Block from(row_bytes, apart);
        for (std::size_t i = 0; i < kCount * from.stride; ++i) from.bytes[i] = static_cast<std::byte>(i * 7);
        Block done(1, mask_apart);
        for (std::size_t row = 0; row < kCount; ++row) {
          done.bytes[row * done.stride] = static_cast<std::byte>(mask[row]);
        }
        for (const std::size_t padding : {0u, 16u}) {
          Block all(row_bytes, padding), some(row_bytes, padding);
          CopyRows(from.rows(), all.rows(), row_bytes, kCount);
          CheckCopied(from, all, row_bytes, {0, 0, 0, 0, 0});
          CopyRowsWhereNot(done.rows(), from.rows(), some.rows(), row_bytes, kCount);
          CheckCopied(from, some, row_bytes, mask);
        }
      }
    }
  }
}

}  // namespace
}  // namespace torchrl_pool::core
