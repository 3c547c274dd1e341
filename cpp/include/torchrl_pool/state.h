// An env's state as bytes, written and read by the same VisitState.
#ifndef TORCHRL_POOL_STATE_H_
#define TORCHRL_POOL_STATE_H_

#include <cstdint>
#include <cstring>
#include <type_traits>
#include <vector>

#include "torchrl_pool/error.h"

#pragma GCC visibility push(hidden)  // the parts of two plugins must not merge in one process
namespace torchrl_pool {

namespace internal {

class StateWriter {
 public:
  template <class... T>
  void operator()(const T&... values) {
    (Write(values), ...);
  }
  const std::vector<std::uint8_t>& bytes() const { return bytes_; }

 private:
  template <class T>
  void Write(const T& value) {
    static_assert(std::is_trivially_copyable_v<T>, "visit vectors and strings element by element");
    const auto* begin = reinterpret_cast<const std::uint8_t*>(&value);
    bytes_.insert(bytes_.end(), begin, begin + sizeof value);
  }
  std::vector<std::uint8_t> bytes_;
};

class StateReader {
 public:
  StateReader(const std::uint8_t* bytes, std::size_t size) : bytes_(bytes), size_(size) {}
  template <class... T>
  void operator()(T&... values) {
    (Read(values), ...);
  }
  bool finished() const { return size_ == 0; }

 private:
  template <class T>
  void Read(T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    if (size_ < sizeof value) throw InvalidArgument("the saved state is too short for this task");
    std::memcpy(&value, bytes_, sizeof value);
    bytes_ += sizeof value;
    size_ -= sizeof value;
  }
  const std::uint8_t* bytes_;
  std::size_t size_;
};

}  // namespace internal

}  // namespace torchrl_pool
#pragma GCC visibility pop

#endif  // TORCHRL_POOL_STATE_H_
