// What threads must not share by accident.
#ifndef TORCHRL_POOL_CORE_CACHE_LINE_H_
#define TORCHRL_POOL_CORE_CACHE_LINE_H_

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>

namespace torchrl_pool::core {

constexpr std::size_t kCacheLine = 64;

// Zeros, on cache lines of their own. Large ones lie on pages that the kernel places near the thread that
// touches them first, which is not the one that asks for them.
class ZeroedBytes {
 public:
  explicit ZeroedBytes(std::size_t size) : block_(std::calloc(size + kCacheLine, 1), std::free) {
    if (!block_) throw std::bad_alloc();
    const auto address = reinterpret_cast<std::uintptr_t>(block_.get());
    data_ = static_cast<std::byte*>(block_.get()) + (kCacheLine - address % kCacheLine) % kCacheLine;
  }
  std::byte* data() const { return data_; }

 private:
  std::unique_ptr<void, void (*)(void*)> block_;
  std::byte* data_;
};

}  // namespace torchrl_pool::core

#endif  // TORCHRL_POOL_CORE_CACHE_LINE_H_
