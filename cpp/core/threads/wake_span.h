// Which of a crew's threads are still to be woken: waking k of them costs the first waker O(log k), because
// each that wakes wakes half of the rest.
#ifndef TORCHRL_POOL_CORE_THREADS_WAKE_SPAN_H_
#define TORCHRL_POOL_CORE_THREADS_WAKE_SPAN_H_

#include <cstdint>

namespace torchrl_pool::core {

constexpr int kMaxThreads = (1 << 12) - 1;

// Shares `begin` to `end` of `shares` equal ones into which `num_homes` homes, from `first_home` on, are cut.
// A share's thread is that of its first home; the others' work it finds as their neighbour. Homes beyond the
// last are the first ones again.
struct WakeSpan {
  int first_home = 0, num_homes = 0, shares = 0;
  int begin = 0, end = 0;
  bool insists = false;  // a thread that is awake may be in a long visit: then another one is woken besides

  bool empty() const { return begin >= end; }
  int HomeOf(int share) const { return first_home + share * num_homes / shares; }

  // The half that comes later, which this one then lacks.
  WakeSpan TakeHalf() {
    WakeSpan half = *this;
    half.begin = end = begin + (end - begin + 1) / 2;
    return half;
  }

  // Never 0 for one that is not empty.
  std::uint64_t Pack() const {
    std::uint64_t bits = insists;
    for (const int part : {first_home, num_homes, shares, begin, end}) {
      bits = bits << 12 | static_cast<std::uint64_t>(part);
    }
    return bits;
  }
  static WakeSpan Unpack(std::uint64_t bits) {
    const auto part = [bits](int i) { return static_cast<int>(bits >> 12 * i & 0xfff); };
    return {part(4), part(3), part(2), part(1), part(0), (bits >> 60 & 1) != 0};
  }
};

}  // namespace torchrl_pool::core

#endif  // TORCHRL_POOL_CORE_THREADS_WAKE_SPAN_H_
