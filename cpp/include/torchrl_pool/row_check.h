// In a plugin that is built with checks, each use of a row is compared with the specs.
#ifndef TORCHRL_POOL_ROW_CHECK_H_
#define TORCHRL_POOL_ROW_CHECK_H_

#include <stdexcept>
#include <string>
#include <type_traits>

#include "torchrl_pool/spec.h"

#pragma GCC visibility push(hidden)  // the parts of two plugins must not merge in one process
namespace torchrl_pool {
namespace internal {

inline const char* CppName(trp_dtype dtype) {
  constexpr const char* kNames[] = {"bool",         "std::uint8_t",  "std::int8_t",   "std::int16_t",
                                    "std::int32_t", "std::int64_t",  "float",         "double",
                                    "pool::Half",   "std::uint16_t", "std::uint32_t", "std::uint64_t"};
  return kNames[dtype];
}

class RowCheck {
 public:
  explicit RowCheck(const Specs& specs) : specs_(specs) {}

  template <class T>
  void Output(int i) const {
    Find<T>("Out", i, false);
  }
  template <class T>
  void Action(int i, const void* const* actions) const {
    if (!actions) throw std::logic_error("Row::Action: a reset has no actions");
    Find<T>("Action", i, true);
  }

 private:
  template <class T>
  void Find(const char* function, int i, bool is_action) const {
    const std::string call = std::string("Row::") + function + "(" + std::to_string(i) + "): ";
    int count = 0;
    for (const Spec& spec : specs_) {
      if ((spec.role == TRP_ACTION) != is_action || count++ != i) continue;
      return CheckType<T>(call, spec);
    }
    throw std::out_of_range(call + "MakeSpecs declares " + std::to_string(count) +
                            (is_action ? " actions" : " entries that are not actions"));
  }

  template <class T>
  static void CheckType(const std::string& call, const Spec& spec) {
    using Element = std::remove_cv_t<T>;
    if constexpr (std::is_arithmetic_v<Element> || std::is_same_v<Element, Half>) {
      if (DtypeOf<Element>() == spec.space.dtype) return;
      throw std::logic_error(call + "'" + spec.name + "' is declared as " + CppName(spec.space.dtype) +
                             ", used as " + CppName(DtypeOf<Element>()));
    }
  }

  const Specs& specs_;
};

}  // namespace internal
}  // namespace torchrl_pool
#pragma GCC visibility pop

#endif  // TORCHRL_POOL_ROW_CHECK_H_
