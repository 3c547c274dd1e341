// Values normalised by what all envs have shown so far, as TorchRL's VecNorm and VecNormV2 keep it: in
// tensors of the user's transform, which are read and written where they lie.
//
// The batch is summed up in double precision, in the order of the envs, and rounded once: what torch's own
// order of addition gives differs from that by its rounding errors.
#ifndef TORCHRL_POOL_CORE_TRANSFORMS_RUNNING_STATISTICS_H_
#define TORCHRL_POOL_CORE_TRANSFORMS_RUNNING_STATISTICS_H_

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <vector>

#include "stage.h"

namespace torchrl_pool::core {

// Subtracts and divides: (x - loc) / scale, both learned from the batch.
template <class T>
class Normalise : public RowStage<Normalise<T>> {
 public:
  // loc_rows: each env has a loc and a scale of its own.
  Normalise(ValueIndex in, ValueIndex out, std::size_t size, std::size_t loc_rows)
      : in_(in), out_(out), size_(size), loc_rows_(loc_rows) {}

  std::size_t learned_bytes() const override { return 2 * size_ * loc_rows_ * sizeof(T); }

  void Step(const StageRow& row) const {
    const T* in = row.Get<const T>(in_);
    const std::size_t own = loc_rows_ > 1 ? row.env * size_ : 0;
    const T* loc = reinterpret_cast<const T*>(row.learned) + own;
    const T* scale = reinterpret_cast<const T*>(row.learned) + size_ * loc_rows_ + own;
    T* out = row.Get<T>(out_);
    for (std::size_t i = 0; i < size_; ++i) out[i] = (in[i] - loc[i]) / scale[i];
  }

 protected:
  // Of a column's rows, and of their squares: sums by element.
  struct Sums {
    std::vector<double> values, squares;
  };
  Sums SumUp(const BatchRows& rows) const {
    Sums sums{std::vector<double>(size_), std::vector<double>(size_)};
    std::vector<const T*> at(rows.size());
    for (std::size_t r = 0; r < at.size(); ++r) at[r] = reinterpret_cast<const T*>(rows.Row(in_, r));
    std::size_t i = 0;
    while (i + 8 <= size_) i = AddUp<8>(at, i, sums);
    while (i + 4 <= size_) i = AddUp<4>(at, i, sums);
    while (i < size_) i = AddUp<1>(at, i, sums);
    return sums;
  }

  // Some elements of all rows, with sums in registers. The element after them.
  template <std::size_t n>
  static std::size_t AddUp(const std::vector<const T*>& rows, std::size_t first, Sums& sums) {
    std::array<double, n> values{}, squares{};
    for (const T* row : rows) {
      for (std::size_t i = 0; i < n; ++i) {
        const T x = row[first + i];
        values[i] += static_cast<double>(x);
        squares[i] += static_cast<double>(x * x);
      }
    }
    std::copy_n(values.begin(), n, sums.values.begin() + first);
    std::copy_n(squares.begin(), n, sums.squares.begin() + first);
    return first + n;
  }

  const ValueIndex in_, out_;
  const std::size_t size_, loc_rows_;
};

struct VecNormState {
  std::uintptr_t sum, ssq;  // of the values' dtype, one number for each element
  std::uintptr_t count;     // float32, one number
  double decay, eps;
  bool frozen;
};

template <class T>
class VecNormStage : public Normalise<T> {
 public:
  VecNormStage(ValueIndex in, ValueIndex out, std::size_t size, const VecNormState& state)
      : Normalise<T>(in, out, size, 1), state_(state) {}

  void Learn(const BatchRows& rows, std::byte* learned) const override {
    const auto batch = state_.frozen ? typename Normalise<T>::Sums{} : this->SumUp(rows);
    const std::size_t size = this->size_;
    T* loc = reinterpret_cast<T*>(learned);
    T* scale = loc + size;
    T* sum = reinterpret_cast<T*>(state_.sum);
    T* ssq = reinterpret_cast<T*>(state_.ssq);
    float* count = reinterpret_cast<float*>(state_.count);
    const T decay = static_cast<T>(state_.decay), eps = static_cast<T>(state_.eps);
    if (!state_.frozen) {
      for (std::size_t i = 0; i < size; ++i) {
        sum[i] = sum[i] * decay + static_cast<T>(batch.values[i]);
        ssq[i] = ssq[i] * decay + static_cast<T>(batch.squares[i]);
      }
      *count = *count * static_cast<float>(state_.decay) + static_cast<float>(rows.size());
    }
    const T n = static_cast<T>(*count);
    for (std::size_t i = 0; i < size; ++i) {
      loc[i] = sum[i] / n;
      const T variance = ssq[i] / n - loc[i] * loc[i];
      scale[i] = std::max(std::sqrt(std::max(variance, eps)), eps);
    }
  }

 private:
  const VecNormState state_;
};

struct VecNormV2State {
  std::uintptr_t loc, var;  // of the values' dtype
  std::uintptr_t count;     // int64, one number
  double decay, eps;
  bool frozen;
  bool reduces;  // over the batch; else each env has its own loc and var
};

template <class T>
class VecNormV2Stage : public Normalise<T> {
 public:
  VecNormV2Stage(ValueIndex in, ValueIndex out, std::size_t size, std::size_t num_envs,
                 const VecNormV2State& state)
      : Normalise<T>(in, out, size, state.reduces ? 1 : num_envs), state_(state) {}

  void Learn(const BatchRows& rows, std::byte* learned) const override {
    const auto batch = state_.frozen || !state_.reduces ? typename Normalise<T>::Sums{} : this->SumUp(rows);
    const std::size_t size = this->size_, total = size * this->loc_rows_;
    T* loc = reinterpret_cast<T*>(state_.loc);
    T* var = reinterpret_cast<T*>(state_.var);
    auto* count = reinterpret_cast<std::int64_t*>(state_.count);
    if (!state_.frozen) {
      const auto n = static_cast<std::int64_t>(state_.reduces ? rows.size() : 1);
      *count += n;
      const double weight = state_.decay == 1.0 ? static_cast<double>(n) / static_cast<double>(*count)
                                                : 1 - std::pow(state_.decay, static_cast<double>(n));
      const T w = static_cast<T>(weight);
      if (state_.reduces) {
        const auto rows_count = static_cast<double>(rows.size());
        for (std::size_t i = 0; i < size; ++i) {
          loc[i] = Lerp(loc[i], static_cast<T>(batch.values[i] / rows_count), w);
          var[i] = Lerp(var[i], static_cast<T>(batch.squares[i] / rows_count), w);
        }
      }
      for (std::size_t r = 0; !state_.reduces && r < rows.size(); ++r) {
        const T* x = reinterpret_cast<const T*>(rows.Row(this->in_, r));
        T* own_loc = loc + rows.env(r) * size;
        T* own_var = var + rows.env(r) * size;
        for (std::size_t i = 0; i < size; ++i) {
          own_loc[i] = Lerp(own_loc[i], x[i], w);
          own_var[i] = Lerp(own_var[i], x[i] * x[i], w);
        }
      }
    }
    // In float32 whatever the values are, as TorchRL computes it; and the variance before it is corrected.
    const float exponent = static_cast<float>(*count) * static_cast<float>(std::log(state_.decay));
    const T correction = state_.decay < 1.0 ? static_cast<T>(1.0f - std::exp(exponent)) : T{1};
    const T eps = static_cast<T>(state_.eps);
    T* learned_loc = reinterpret_cast<T*>(learned);
    T* learned_scale = learned_loc + total;
    for (std::size_t i = 0; i < total; ++i) {
      learned_loc[i] = loc[i] / correction;
      const T scale = std::sqrt((var[i] - loc[i] * loc[i]) / correction);
      learned_scale[i] = scale < eps ? eps : scale;  // nan stays nan
    }
  }

 private:
  static T Lerp(T from, T to, T weight) {
    return std::abs(weight) < T{0.5} ? std::fma(weight, to - from, from)
                                     : std::fma(weight - 1, to - from, to);
  }

  const VecNormV2State state_;
};

}  // namespace torchrl_pool::core

#endif  // TORCHRL_POOL_CORE_TRANSFORMS_RUNNING_STATISTICS_H_
