// What there is to know of a dtype.
#ifndef TORCHRL_POOL_CORE_DTYPE_H_
#define TORCHRL_POOL_CORE_DTYPE_H_

#include <cstddef>
#include <cstdint>

#include "torchrl_pool/abi.h"
#include "torchrl_pool/half.h"

namespace torchrl_pool::core {

struct Dtype {
  const char* name;  // as NumPy and torch call it
  char kind;         // as NumPy's dtype.kind
  std::size_t bytes;
};

// By trp_dtype.
inline constexpr Dtype kDtypes[] = {
    {"bool", 'b', 1},    {"uint8", 'u', 1},  {"int8", 'i', 1},    {"int16", 'i', 2},
    {"int32", 'i', 4},   {"int64", 'i', 8},  {"float32", 'f', 4}, {"float64", 'f', 8},
    {"float16", 'f', 2}, {"uint16", 'u', 2}, {"uint32", 'u', 4},  {"uint64", 'u', 8},
};

inline bool IsFloat(trp_dtype dtype) { return kDtypes[dtype].kind == 'f'; }

// Calls a function with a zero of the type of a floating-point number.
template <class Function>
auto WithFloat(trp_dtype dtype, Function&& function) {
  switch (dtype) {
    case TRP_FLOAT16:
      return function(Half());
    case TRP_FLOAT32:
      return function(0.0f);
    default:
      return function(0.0);
  }
}

// The same, of any number; flags are bytes.
template <class Function>
auto WithNumber(trp_dtype dtype, Function&& function) {
  switch (dtype) {
    case TRP_BOOL:
    case TRP_UINT8:
      return function(std::uint8_t{});
    case TRP_INT8:
      return function(std::int8_t{});
    case TRP_INT16:
      return function(std::int16_t{});
    case TRP_INT32:
      return function(std::int32_t{});
    case TRP_INT64:
      return function(std::int64_t{});
    case TRP_UINT16:
      return function(std::uint16_t{});
    case TRP_UINT32:
      return function(std::uint32_t{});
    case TRP_UINT64:
      return function(std::uint64_t{});
    case TRP_FLOAT16:
    case TRP_FLOAT32:
    case TRP_FLOAT64:
      break;
  }
  return WithFloat(dtype, function);
}

}  // namespace torchrl_pool::core

#endif  // TORCHRL_POOL_CORE_DTYPE_H_
