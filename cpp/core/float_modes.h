// The floating-point modes of a thread: rounding, and whether denormal numbers are flushed to zero. They
// belong to a thread (`torch.set_flush_denormal` sets them for its caller alone), so the rows of one job
// would differ by the thread that computes them.
#ifndef TORCHRL_POOL_CORE_FLOAT_MODES_H_
#define TORCHRL_POOL_CORE_FLOAT_MODES_H_

#include <cstdint>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace torchrl_pool::core {

class FloatModes {
 public:
  static FloatModes OfThisThread() { return FloatModes(Read()); }

  // The calling thread has these modes for as long as this lives.
  class Scope {
   public:
    explicit Scope(FloatModes modes) : earlier_(Read()), differs_(earlier_ != modes.bits_) {
      if (differs_) Write(modes.bits_);
    }
    ~Scope() {
      if (differs_) Write(earlier_);
    }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    const std::uint64_t earlier_;
    const bool differs_;
  };

 private:
  explicit FloatModes(std::uint64_t bits) : bits_(bits) {}

#if defined(__x86_64__)
  static constexpr std::uint32_t kExceptionFlags = 0x3f;  // which operations set
  static std::uint64_t Read() { return _mm_getcsr() & ~kExceptionFlags; }
  static void Write(std::uint64_t bits) {
    _mm_setcsr(static_cast<std::uint32_t>(bits) | (_mm_getcsr() & kExceptionFlags));
  }
#elif defined(__aarch64__)
  static std::uint64_t Read() {
    std::uint64_t bits = 0;
    asm volatile("mrs %0, fpcr" : "=r"(bits));
    return bits;
  }
  static void Write(std::uint64_t bits) { asm volatile("msr fpcr, %0" : : "r"(bits)); }
#else
  static std::uint64_t Read() { return 0; }
  static void Write(std::uint64_t) {}
#endif

  std::uint64_t bits_;
};

}  // namespace torchrl_pool::core

#endif  // TORCHRL_POOL_CORE_FLOAT_MODES_H_
