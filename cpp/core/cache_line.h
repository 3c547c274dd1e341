// What threads must not share by accident.
#ifndef TORCHRL_POOL_CORE_CACHE_LINE_H_
#define TORCHRL_POOL_CORE_CACHE_LINE_H_

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <vector>

namespace torchrl_pool::core {

constexpr std::size_t kCacheLine = 64;

// A processor that reads some lines fetches their neighbours too, away from the thread that writes those:
// what one thread writes at every env lies this far from what others read.
constexpr std::size_t kApart = 2 * kCacheLine;
struct Gap {
  Gap() {}  // with it, no compiler calls a gap an unused member
  alignas(kCacheLine) std::byte bytes[kApart];
};

// For a vector that one thread writes again and again, or that all of them read: it shares no cache line with
// what the heap has beside it.
template <class T>
struct ApartAllocator {
  using value_type = T;
  ApartAllocator() = default;
  template <class U>
  ApartAllocator(const ApartAllocator<U>&) {}

  T* allocate(std::size_t count) {
    void* const block = ::operator new(kApart + count * sizeof(T) + kApart, std::align_val_t(kCacheLine));
    return reinterpret_cast<T*>(static_cast<std::byte*>(block) + kApart);
  }
  void deallocate(T* memory, std::size_t) {
    ::operator delete(reinterpret_cast<std::byte*>(memory) - kApart, std::align_val_t(kCacheLine));
  }
  bool operator==(const ApartAllocator&) const { return true; }
};
template <class T>
using ApartVector = std::vector<T, ApartAllocator<T>>;

// Zeros, apart from everything else. Large ones lie on pages that the kernel places near the thread that
// touches them first, which is not the one that asks for them.
class ZeroedBytes {
 public:
  explicit ZeroedBytes(std::size_t size)
      : block_(std::calloc(kApart + size + kApart + kCacheLine, 1), std::free) {
    if (!block_) throw std::bad_alloc();
    const auto address = reinterpret_cast<std::uintptr_t>(block_.get());
    data_ = static_cast<std::byte*>(block_.get()) + kApart + (kCacheLine - address % kCacheLine) % kCacheLine;
  }
  std::byte* data() const { return data_; }

 private:
  std::unique_ptr<void, void (*)(void*)> block_;
  std::byte* data_;
};

}  // namespace torchrl_pool::core

#endif  // TORCHRL_POOL_CORE_CACHE_LINE_H_
