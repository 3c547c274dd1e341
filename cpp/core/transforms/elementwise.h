// One number in, one number out, element by element: scaling, clamping, signs, other dtypes.
#ifndef TORCHRL_POOL_CORE_TRANSFORMS_ELEMENTWISE_H_
#define TORCHRL_POOL_CORE_TRANSFORMS_ELEMENTWISE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>

#include "stage.h"
#include "transforms/parameter.h"

namespace torchrl_pool::core {

// A parameter of a function, and what stands for one that is missing.
template <class T>
struct Argument {
  Parameter parameter;
  T missing{};
};

// `Function` has the types In and Out, Out operator()(In value, parameters...) const, and arguments(), an
// array of Arguments.
template <class Function>
class Elementwise : public Stage {
 public:
  using In = typename Function::In;
  using Out = typename Function::Out;

  Elementwise(ValueIndex in, ValueIndex out, std::size_t size, Function function)
      : in_(in), out_(out), size_(size), function_(function) {}

  void Run(const StageRows& rows, When) const override { Apply(rows, function_.arguments()); }

 private:
  template <class T, std::size_t n>
  void Apply(const StageRows& rows, const std::array<Argument<T>, n>& arguments) const {
    Apply(rows, arguments, std::make_index_sequence<n>());
  }

  template <class T, std::size_t n, std::size_t... k>
  void Apply(const StageRows& rows, const std::array<Argument<T>, n>& arguments,
             std::index_sequence<k...>) const {
    const Function function = function_;
    [[maybe_unused]] const std::array<ParameterInRows<T>, n> parameters{
        ParameterInRows<T>(arguments[k].parameter, size_, arguments[k].missing)...};
    if ((parameters[k].is_scalar() && ...)) {
      const std::array<T, n> values{parameters[k].scalar()...};
      ForElements<const In, Out>(rows, size_, {in_, out_}, [=](const In* in, Out* out, std::size_t count) {
        for (std::size_t i = 0; i < count; ++i) out[i] = function(in[i], values[k]...);
      });
      return;
    }
    for (std::uint32_t row = 0; row < rows.count; ++row) {
      const In* in = rows.Row(row).template Get<const In>(in_);
      Out* out = rows.Row(row).template Get<Out>(out_);
      for (std::size_t i = 0; i < size_; ++i) out[i] = function(in[i], parameters[k].At(i)...);
    }
  }

  const ValueIndex in_, out_;
  const std::size_t size_;
  const Function function_;
};

// A function of the value alone.
template <class From, class To>
struct OfValueAlone {
  using In = From;
  using Out = To;
  std::array<Argument<int>, 0> arguments() const { return {}; }
};

// ObservationNorm, RewardScaling: x * scale + loc, or (x - loc) / scale. Parameters take the values' dtype
// first, as torch's promotion has it where theirs is not the wider one.
template <class T>
struct Affine {
  using In = T;
  using Out = T;
  Parameter loc, scale;
  bool standard_normal;

  std::array<Argument<T>, 2> arguments() const { return {{{loc}, {scale}}}; }
  T operator()(T x, T at, T by) const { return standard_normal ? (x - at) / by : x * by + at; }
};

// ClipTransform, RewardClipping. nan stays nan, and bounds that are nan make it so.
template <class T>
struct Clamp {
  using In = T;
  using Out = T;
  Parameter low, high;

  std::array<Argument<T>, 2> arguments() const {
    using Limits = std::numeric_limits<T>;
    if constexpr (Limits::has_infinity) return {{{low, -Limits::infinity()}, {high, Limits::infinity()}}};
    return {{{low, Limits::lowest()}, {high, Limits::max()}}};
  }
  T operator()(T x, T least, T most) const {
    x = x < least || least != least ? least : x;
    return x > most || most != most ? most : x;
  }
};

// SignTransform. nan has none: 0.
template <class T>
struct Sign : OfValueAlone<T, T> {
  T operator()(T x) const { return static_cast<T>(static_cast<int>(x > T{0}) - static_cast<int>(x < T{0})); }
};

// DTypeCastTransform, DoubleToFloat.
template <class From, class To>
struct Cast : OfValueAlone<From, To> {
  To operator()(From x) const { return static_cast<To>(x); }
};

// BinarizeReward.
template <class T>
struct IsPositive : OfValueAlone<T, std::int8_t> {
  std::int8_t operator()(T x) const { return x > T{0}; }
};

}  // namespace torchrl_pool::core

#endif  // TORCHRL_POOL_CORE_TRANSFORMS_ELEMENTWISE_H_
