// An env's state as bytes, written and read by the same VisitState. Where the two directions differ,
// `Visitor::kReading` tells which it is.
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

// What VisitState may visit: trivially copyable values, and vectors of them. Bytes may come from anywhere:
// values with an IsValid() are asked, and what is an index is visited with Bounded.
class StateWriter {
 public:
  static constexpr bool kReading = false;

  template <class... T>
  void operator()(const T&... values) {
    (Write(values), ...);
  }
  // A number that must lie from `low` to `high`: where it is an index, say.
  template <class T>
  void Bounded(const T& value, const std::type_identity_t<T>&, const std::type_identity_t<T>&) {
    Write(value);
  }
  const std::vector<std::uint8_t>& bytes() const { return bytes_; }

 private:
  template <class T>
  void Write(const T& value) {
    static_assert(std::is_trivially_copyable_v<T>, "visit what holds pointers element by element");
    Append(&value, sizeof value);
  }
  template <class T>
  void Write(const std::vector<T>& values) {
    static_assert(std::is_trivially_copyable_v<T>);
    Write(static_cast<std::uint64_t>(values.size()));
    Append(values.data(), values.size() * sizeof(T));
  }
  void Append(const void* from, std::size_t size) {
    const std::size_t end = bytes_.size();
    bytes_.resize(end + size);
    if (size > 0) std::memcpy(bytes_.data() + end, from, size);  // null where there is nothing
  }
  std::vector<std::uint8_t> bytes_;
};

class StateReader {
 public:
  static constexpr bool kReading = true;

  StateReader(const std::uint8_t* bytes, std::size_t size) : bytes_(bytes), size_(size) {}
  template <class... T>
  void operator()(T&... values) {
    (Read(values), ...);
  }
  template <class T>
  void Bounded(T& value, const std::type_identity_t<T>& low, const std::type_identity_t<T>& high) {
    T read = value;
    Read(read);
    // So NaN is out of its range, too.
    if (!(read >= low && read <= high)) {
      throw InvalidArgument("the saved state holds a number out of its range");
    }
    value = read;
  }
  bool finished() const { return size_ == 0; }

 private:
  template <class T>
  void Read(T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    T read = value;
    Take(&read, sizeof read);
    if constexpr (requires { read.IsValid(); }) {
      if (!read.IsValid()) throw InvalidArgument("corrupt saved state: a value is out of its range");
    }
    value = read;
  }
  void Read(bool& value) {  // not every byte is one
    std::uint8_t byte = 0;
    Read(byte);
    if (byte > 1) throw InvalidArgument("corrupt saved state: invalid bool");
    value = byte == 1;
  }
  template <class T>
  void Read(std::vector<T>& values) {
    std::uint64_t count = 0;
    Read(count);
    if (count > size_ / sizeof(T)) throw InvalidArgument("the saved state is too short for this task");
    values.resize(count);
    Take(values.data(), count * sizeof(T));
  }
  void Take(void* to, std::size_t size) {
    if (size_ < size) throw InvalidArgument("the saved state is too short for this task");
    if (size > 0) std::memcpy(to, bytes_, size);
    bytes_ += size;
    size_ -= size;
  }
  const std::uint8_t* bytes_;
  std::size_t size_;
};

}  // namespace internal

}  // namespace torchrl_pool
#pragma GCC visibility pop

#endif  // TORCHRL_POOL_STATE_H_
