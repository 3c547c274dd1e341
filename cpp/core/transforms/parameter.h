// A transform's parameter: a tensor of the user's, read where it lies whenever it is used.
#ifndef TORCHRL_POOL_CORE_TRANSFORMS_PARAMETER_H_
#define TORCHRL_POOL_CORE_TRANSFORMS_PARAMETER_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "stage.h"

namespace torchrl_pool::core {

// One number for all elements of a row, or one for each; float32, float64 or int64.
class Parameter {
 public:
  enum class Type { kFloat32, kFloat64, kInt64 };

  Parameter() = default;
  Parameter(std::uintptr_t address, Type type, bool is_scalar)
      : address_(address), type_(type), is_scalar_(is_scalar) {}

  bool exists() const { return address_ != 0; }
  bool is_scalar() const { return is_scalar_; }

  template <class T>
  T At(std::size_t i) const {
    if (is_scalar_) i = 0;
    switch (type_) {
      case Type::kFloat32:
        return static_cast<T>(reinterpret_cast<const float*>(address_)[i]);
      case Type::kFloat64:
        return static_cast<T>(reinterpret_cast<const double*>(address_)[i]);
      default:
        return static_cast<T>(reinterpret_cast<const std::int64_t*>(address_)[i]);
    }
  }

 private:
  std::uintptr_t address_ = 0;
  Type type_ = Type::kFloat32;
  bool is_scalar_ = true;
};

// A parameter while rows of `size` elements are at hand, in the dtype of their values.
template <class T>
class ParameterInRows {
 public:
  ParameterInRows(const Parameter& parameter, std::size_t size, T missing)
      : is_scalar_(parameter.is_scalar()), scalar_(missing) {
    if (!parameter.exists()) return;
    if (is_scalar_) {
      scalar_ = parameter.At<T>(0);
      return;
    }
    each_.resize(size);
    for (std::size_t i = 0; i < size; ++i) each_[i] = parameter.At<T>(i);
  }

  bool is_scalar() const { return is_scalar_; }
  T scalar() const { return scalar_; }
  T At(std::size_t i) const { return is_scalar_ ? scalar_ : each_[i]; }

 private:
  const bool is_scalar_;
  T scalar_;
  std::vector<T> each_;
};

}  // namespace torchrl_pool::core

#endif  // TORCHRL_POOL_CORE_TRANSFORMS_PARAMETER_H_
