// What an env declares of its tensors.
#ifndef TORCHRL_POOL_SPEC_H_
#define TORCHRL_POOL_SPEC_H_

#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "torchrl_pool/abi.h"
#include "torchrl_pool/half.h"

#pragma GCC visibility push(hidden)  // the parts of two plugins must not merge in one process
namespace torchrl_pool {

template <class T>
constexpr trp_dtype DtypeOf() {
  if constexpr (std::is_same_v<T, bool>)
    return TRP_BOOL;
  else if constexpr (std::is_same_v<T, std::uint8_t>)
    return TRP_UINT8;
  else if constexpr (std::is_same_v<T, std::int8_t>)
    return TRP_INT8;
  else if constexpr (std::is_same_v<T, std::int16_t>)
    return TRP_INT16;
  else if constexpr (std::is_same_v<T, std::int32_t>)
    return TRP_INT32;
  else if constexpr (std::is_same_v<T, std::int64_t>)
    return TRP_INT64;
  else if constexpr (std::is_same_v<T, std::uint16_t>)
    return TRP_UINT16;
  else if constexpr (std::is_same_v<T, std::uint32_t>)
    return TRP_UINT32;
  else if constexpr (std::is_same_v<T, std::uint64_t>)
    return TRP_UINT64;
  else if constexpr (std::is_same_v<T, Half>)
    return TRP_FLOAT16;
  else if constexpr (std::is_same_v<T, float>)
    return TRP_FLOAT32;
  else {
    static_assert(std::is_same_v<T, double>, "not a tensor dtype");
    return TRP_FLOAT64;
  }
}

// The values that one tensor of an env may take. Of actions the pool checks that choices exist and numbers
// are finite; but numbers may lie outside of the bounds of a Box, as in Gymnasium: an env clips them where
// that matters, std::clamp(x, -1.0f, 1.0f), and always before one becomes an index.
struct Space {
  trp_dtype dtype = TRP_FLOAT32;
  std::vector<std::int64_t> shape;
  std::vector<double> low, high;  // empty: unbounded; one value: the same for all; else one an element
  std::vector<std::int64_t> categories;
};

template <class T>
Space Box(std::vector<std::int64_t> shape) {
  return {.dtype = DtypeOf<T>(), .shape = std::move(shape), .low = {}, .high = {}, .categories = {}};
}
template <class T>
Space Box(std::vector<std::int64_t> shape, std::vector<double> low, std::vector<double> high) {
  return {.dtype = DtypeOf<T>(),
          .shape = std::move(shape),
          .low = std::move(low),
          .high = std::move(high),
          .categories = {}};
}
template <class T>
Space Box(std::vector<std::int64_t> shape, double low, double high) {
  return Box<T>(std::move(shape), std::vector<double>{low}, std::vector<double>{high});
}
// One of 0 … count-1, as int64.
inline Space Discrete(std::int64_t count) {
  return {.dtype = TRP_INT64, .shape = {}, .low = {}, .high = {}, .categories = {count}};
}
// Several choices at once, as int64 [counts.size()], as Gymnasium's MultiDiscrete and Tuple of Discretes.
inline Space MultiDiscrete(std::vector<std::int64_t> counts) {
  const auto size = static_cast<std::int64_t>(counts.size());
  return {.dtype = TRP_INT64, .shape = {size}, .low = {}, .high = {}, .categories = std::move(counts)};
}

// Several yes or no's at once, as int8 0 or 1.
inline Space MultiBinary(std::vector<std::int64_t> shape) { return Box<std::int8_t>(std::move(shape), 0, 1); }
// What each of `count` agents has, along a first dimension.
inline Space PerAgent(std::int64_t count, const Space& space) {
  Space all = space;
  all.shape.insert(all.shape.begin(), count);
  for (std::int64_t i = 1; i < count; ++i) {
    all.categories.insert(all.categories.end(), space.categories.begin(), space.categories.end());
    if (space.low.size() > 1) all.low.insert(all.low.end(), space.low.begin(), space.low.end());
    if (space.high.size() > 1) all.high.insert(all.high.end(), space.high.begin(), space.high.end());
  }
  return all;
}

struct Spec {
  trp_role role;
  std::string name;
  Space space;
  std::string help;
};
using Specs = std::vector<Spec>;

inline Spec Observation(std::string name, Space space, std::string help = "") {
  return {TRP_OBSERVATION, std::move(name), std::move(space), std::move(help)};
}
inline Spec Action(std::string name, Space space, std::string help = "") {
  return {TRP_ACTION, std::move(name), std::move(space), std::move(help)};
}
// An observation that is written only when the user names it in info_keys: Row::Out gives NULL else.
inline Spec Info(std::string name, Space space, std::string help = "") {
  return {TRP_INFO, std::move(name), std::move(space), std::move(help)};
}
// Only for rewards that are more than one number, or double; without it Outcome::reward is the reward.
template <class T = float>
Spec Reward(std::string name, std::vector<std::int64_t> shape, std::string help = "") {
  return {TRP_REWARD, std::move(name), Box<T>(std::move(shape)), std::move(help)};
}
// Done flags beside the env's own, which every env has through its Outcome.
inline Spec Done(std::string name, std::vector<std::int64_t> shape, std::string help = "") {
  return {TRP_DONE, std::move(name), Box<bool>(std::move(shape)), std::move(help)};
}

}  // namespace torchrl_pool
#pragma GCC visibility pop

#endif  // TORCHRL_POOL_SPEC_H_
