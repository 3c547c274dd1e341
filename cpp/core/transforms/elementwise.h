// One number in, one number out, element by element: scaling, clamping, signs, other dtypes.
#ifndef TORCHRL_POOL_CORE_TRANSFORMS_ELEMENTWISE_H_
#define TORCHRL_POOL_CORE_TRANSFORMS_ELEMENTWISE_H_

#include <cstddef>
#include <cstdint>

#include "chain.h"
#include "transforms/parameter.h"

namespace torchrl_pool::core {

// `Function` has: Out operator()(In value, std::size_t i) const. Or InRow(), which gives such a function for
// one row.
template <class In, class Out, class Function>
class Elementwise : public RowStage<Elementwise<In, Out, Function>> {
 public:
  Elementwise(ValueIndex in, ValueIndex out, std::size_t size, Function function)
      : in_(in), out_(out), size_(size), function_(function) {}

  void Step(const ChainRow& row) const {
    if constexpr (requires { function_.InRow(); }) {
      Apply(row, function_.InRow());
    } else {
      Apply(row, function_);
    }
  }

 private:
  template <class Applied>
  void Apply(const ChainRow& row, const Applied applied) const {
    const In* in = row.Get<const In>(in_);
    Out* out = row.Get<Out>(out_);
    for (std::size_t i = 0; i < size_; ++i) out[i] = applied(in[i], i);
  }

  const ValueIndex in_, out_;
  const std::size_t size_;
  const Function function_;
};

// ObservationNorm, RewardScaling: x * scale + loc, or (x - loc) / scale. Parameters take the values' dtype
// first, as torch's promotion has it where theirs is not the wider one.
template <class T>
struct Affine {
  Parameter loc, scale;
  bool standard_normal;

  auto InRow() const {
    return [normal = standard_normal, loc = ParameterInRow<T>(loc), scale = ParameterInRow<T>(scale)](
               T x, std::size_t i) -> T {
      return normal ? (x - loc.At(i)) / scale.At(i) : x * scale.At(i) + loc.At(i);
    };
  }
};

// ClipTransform, RewardClipping. nan stays nan, and bounds that are nan make it so.
template <class T>
struct Clamp {
  Parameter low, high;

  auto InRow() const {
    return [has_low = low.exists(), has_high = high.exists(), low = ParameterInRow<T>(low),
            high = ParameterInRow<T>(high)](T x, std::size_t i) -> T {
      if (has_low && (x < low.At(i) || low.At(i) != low.At(i))) x = low.At(i);
      if (has_high && (x > high.At(i) || high.At(i) != high.At(i))) x = high.At(i);
      return x;
    };
  }
};

// SignTransform. nan has none: 0.
template <class T>
struct Sign {
  T operator()(T x, std::size_t) const {
    return static_cast<T>(static_cast<int>(x > T{0}) - static_cast<int>(x < T{0}));
  }
};

// DTypeCastTransform, DoubleToFloat.
template <class In, class Out>
struct Cast {
  Out operator()(In x, std::size_t) const { return static_cast<Out>(x); }
};

// BinarizeReward.
template <class T>
struct IsPositive {
  std::int8_t operator()(T x, std::size_t) const { return x > T{0}; }
};

}  // namespace torchrl_pool::core

#endif  // TORCHRL_POOL_CORE_TRANSFORMS_ELEMENTWISE_H_
