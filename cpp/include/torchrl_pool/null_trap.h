// In a plugin that is built with checks, a use of a null pointer is an error of the env, not the process's
// end.
//
// The compiler is told to look at pointers before it uses them: -fsanitize=null and its like, and, since gcc
// sees by these the first element of an array only, -fsanitize=kernel-address. What it calls then is defined
// here, so that no library has to come with the plugin. That must not throw, since the compiler takes it for
// a function that does not: it jumps to where the pool called the env, past the destructors between. This is
// for finding mistakes; build without checks to work.
#ifndef TORCHRL_POOL_NULL_TRAP_H_
#define TORCHRL_POOL_NULL_TRAP_H_

#include <csetjmp>
#include <cstdint>
#include <stdexcept>
#include <string>

#pragma GCC visibility push(hidden)  // the parts of two plugins must not merge in one process
namespace torchrl_pool {
namespace internal {

struct NullTrap {
  std::jmp_buf* target = nullptr;  // where to go on; null: nowhere, outside the pool's calls
  std::string nulls;               // what Row::Out gave null for in this call
  std::string message;

  static NullTrap& OfThisThread() {
    static thread_local NullTrap trap;
    return trap;
  }
};

// Runs an author's function; throws where it uses a null pointer.
template <class Function>
[[gnu::noinline]] void TrapNull(Function&& function) {
  NullTrap& trap = NullTrap::OfThisThread();
  struct Ended {
    ~Ended() { NullTrap::OfThisThread().target = nullptr; }
  } ended;
  std::jmp_buf here;
  trap.nulls.clear();
  trap.target = &here;
  if (setjmp(here) != 0) throw std::runtime_error(NullTrap::OfThisThread().message);
  function();
}

// place: the source's file and line and what follows them, where the compiler tells.
inline void UsedNull(const std::string& place) {
  NullTrap& trap = NullTrap::OfThisThread();
  if (!trap.target) return;
  trap.message = place + "a null pointer is used" + trap.nulls;
  std::longjmp(*trap.target, 1);
}

}  // namespace internal
}  // namespace torchrl_pool

// ---- what the compiler calls ----

struct TrpSourcePlace {
  const char* file;
  std::uint32_t line, column;

  std::string Text() const { return std::string(file) + ":" + std::to_string(line) + ": "; }
};
extern "C" {
[[gnu::used]] inline void __ubsan_handle_type_mismatch_v1(TrpSourcePlace* place, std::uintptr_t pointer) {
  if (pointer == 0) torchrl_pool::internal::UsedNull(place->Text());
}
[[gnu::used]] inline void __ubsan_handle_pointer_overflow(TrpSourcePlace* place, std::uintptr_t base,
                                                          std::uintptr_t) {
  if (base == 0) torchrl_pool::internal::UsedNull(place->Text());
}
[[gnu::used]] inline void __ubsan_handle_nonnull_arg(TrpSourcePlace* place) {
  torchrl_pool::internal::UsedNull(place->Text());
}

// Before each access to memory. Nobody's memory lies in the first page: that is an element of a null array.
#define TRP_ACCESS(function, ...)                                                                    \
  [[gnu::used, gnu::no_sanitize_address]] inline void function(std::uintptr_t address __VA_OPT__(, ) \
                                                                   __VA_ARGS__) {                    \
    if (address < 4096) torchrl_pool::internal::UsedNull("");                                        \
  }
TRP_ACCESS(__asan_load1_noabort)
TRP_ACCESS(__asan_load2_noabort)
TRP_ACCESS(__asan_load4_noabort)
TRP_ACCESS(__asan_load8_noabort)
TRP_ACCESS(__asan_load16_noabort)
TRP_ACCESS(__asan_loadN_noabort, std::size_t)
TRP_ACCESS(__asan_store1_noabort)
TRP_ACCESS(__asan_store2_noabort)
TRP_ACCESS(__asan_store4_noabort)
TRP_ACCESS(__asan_store8_noabort)
TRP_ACCESS(__asan_store16_noabort)
TRP_ACCESS(__asan_storeN_noabort, std::size_t)
#undef TRP_ACCESS
[[gnu::used]] inline void __asan_handle_no_return() {}
[[gnu::used]] inline void __asan_before_dynamic_init(const char*) {}
[[gnu::used]] inline void __asan_after_dynamic_init() {}
}
#pragma GCC visibility pop

#endif  // TORCHRL_POOL_NULL_TRAP_H_
