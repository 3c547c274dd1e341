// Every action of a call is looked at by the calling thread alone, so all is done for whole columns, and
// words are found only for what is wrong.
#include "validate.h"

#include <charconv>
#include <cmath>
#include <limits>
#include <sstream>
#include <type_traits>

#include "dtype.h"
#include "errors.h"

namespace torchrl_pool::core {
namespace {

// A number in as few digits as tell it from its neighbours.
std::string Shortest(double value, trp_dtype dtype) {
  char text[32];
  char* const end = std::end(text);
  const auto result = dtype == TRP_FLOAT64 ? std::to_chars(text, end, value)
                                           : std::to_chars(text, end, static_cast<float>(value));
  return {text, result.ptr};
}

template <class Got>
[[noreturn]] void Refuse(const Spec& spec, std::uint32_t env, std::size_t element, const Got& got,
                         const std::string& expected) {
  std::ostringstream message;
  message << "'" << spec.name << "' of env " << env;
  const std::size_t elements = spec.one_hot ? spec.categories.size() : spec.size();
  if (elements > 1) message << ", element " << element;
  message << ": expected " << expected << ", got " << got;
  throw StatusError(TRP_INVALID_ARGUMENT, message.str());
}

// What an element may be. Infinities are refused as NaN is, which no comparison admits.
template <class T>
struct Range {
  T least, most;

  bool Admits(T value) const {
    const bool is_above = value >= least, is_below = value <= most;
    return is_above & is_below;  // without a branch
  }
  bool operator==(const Range&) const = default;
};

// A fast test: true is certain; where it says false, each value has to be looked at.
template <class T>
bool AllAdmitted(const Range<T>& range, std::span<const T> values) {
  if constexpr (std::is_integral_v<T>) {
    if (range.least == 0) {  // where their bits together are small enough each of them is
      std::make_unsigned_t<T> bits = 0;
      for (const T value : values) bits |= static_cast<std::make_unsigned_t<T>>(value);
      return bits <= static_cast<std::make_unsigned_t<T>>(range.most);
    }
  }
  bool all = true;
  for (const T value : values) all &= range.Admits(value);
  return all;
}

template <class T>
constexpr Range<T> kFinite{std::numeric_limits<T>::lowest(), std::numeric_limits<T>::max()};
template <>
const Range<Half> kFinite<Half>{Half(-65504), Half(65504)};

template <class T>
Range<T> RangeOf(const ActionColumn& column, const Spec& spec, std::size_t element) {
  if (!column.bounded) return kFinite<T>;
  if (spec.dtype == TRP_BOOL) return {T(0), T(1)};
  if constexpr (std::is_same_v<T, std::int64_t>) {  // which all choices are
    if (!spec.categories.empty()) return {0, spec.categories[element] - 1};
  }
  const double low = spec.low.empty() ? -INFINITY : spec.low[element];
  const double high = spec.high.empty() ? INFINITY : spec.high[element];
  // Bounds are compared as doubles, values as what they are: doubles do not tell large integers apart.
  Range<T> range = kFinite<T>;
  if (low > static_cast<double>(range.least)) {
    range.least = static_cast<T>(std::is_integral_v<T> ? std::ceil(low) : low);
  }
  if (high < static_cast<double>(range.most)) {
    range.most = static_cast<T>(std::is_integral_v<T> ? std::floor(high) : high);
  }
  return range;
}

template <class T>
[[noreturn]] void RefuseNumber(const ActionColumn& column, const Spec& spec, std::uint32_t env,
                               std::size_t element, T value) {
  if (spec.dtype == TRP_BOOL) Refuse(spec, env, element, static_cast<int>(value), "a bool");
  if (!spec.categories.empty()) {
    Refuse(spec, env, element, value, "one of 0 to " + std::to_string(spec.categories[element] - 1));
  }
  const auto show = [&](T number) {
    return std::is_integral_v<T> ? std::to_string(number) : Shortest(static_cast<double>(number), spec.dtype);
  };
  if (!column.bounded || (spec.low.empty() && spec.high.empty())) {
    Refuse(spec, env, element, show(value), "a finite number");
  }
  // The bounds as they were given, a missing one as the largest number there is.
  const auto bound = [&](const std::vector<double>& bounds, T missing) {
    return Shortest(
        bounds.empty() || std::isinf(bounds[element]) ? static_cast<double>(missing) : bounds[element],
        spec.dtype);
  };
  Refuse(
      spec, env, element, show(value),
      "a number in [" + bound(spec.low, kFinite<T>.least) + ", " + bound(spec.high, kFinite<T>.most) + "]");
}

// Consecutive rows of a column, one after the other or `stride` bytes apart.
struct RowBlock {
  const std::byte* base;
  std::size_t stride;
  std::uint32_t first, count, rows_per_env;

  template <class T>
  const T* Row(std::uint32_t i) const {
    return reinterpret_cast<const T*>(base + i * stride);
  }
  std::uint32_t EnvOf(std::uint32_t i) const { return (first + i) / rows_per_env; }
};

template <class T>
void CheckNumbers(const ActionColumn& column, const Spec& spec, std::size_t size, const RowBlock& rows) {
  bool is_one_range = true;
  const Range<T> range = RangeOf<T>(column, spec, 0);
  for (std::size_t i = 1; i < size; ++i) is_one_range = is_one_range && RangeOf<T>(column, spec, i) == range;
  if (is_one_range && rows.stride == size * sizeof(T) &&
      AllAdmitted(range, std::span(rows.Row<T>(0), rows.count * size))) {
    return;
  }
  for (std::uint32_t row = 0; row < rows.count; ++row) {
    for (std::size_t i = 0; i < size; ++i) {
      const T value = rows.Row<T>(row)[i];
      if (!(is_one_range ? range : RangeOf<T>(column, spec, i)).Admits(value)) {
        RefuseNumber(column, spec, rows.EnvOf(row), i, value);
      }
    }
  }
}

// All elements are 0 or 1, and at least one is 1.
template <class T>
bool IsOneHot(const T* vector, std::int64_t count) {
  if constexpr (std::is_integral_v<T>) {  // then, and only then, their bits together make a 1
    T bits = 0;
    for (std::int64_t k = 0; k < count; ++k) bits = static_cast<T>(bits | vector[k]);
    return bits == 1;
  } else {
    bool has_one = false, all = true;
    for (std::int64_t k = 0; k < count; ++k) {
      const auto value = static_cast<double>(vector[k]);
      all = all && (value == 0 || value == 1);
      has_one = has_one || value == 1;
    }
    return all && has_one;
  }
}

template <class T>
[[noreturn]] void RefuseOneHot(const Spec& spec, std::uint32_t env, std::size_t element, const T* vector,
                               std::int64_t count) {
  std::ostringstream got;
  got << "[";
  using Shown = std::conditional_t<std::is_integral_v<T>, std::int64_t, double>;
  for (std::int64_t k = 0; k < count; ++k) got << (k ? ", " : "") << static_cast<Shown>(vector[k]);
  got << "]";
  Refuse(spec, env, element, got.str(), "a one-hot vector of " + std::to_string(count) + " entries");
}

template <class T>
void CheckOneHot(const Spec& spec, const RowBlock& rows) {
  const std::int64_t count = spec.categories[0];
  if (spec.categories.size() == 1 &&
      count == 2) {  // a case of its own for two choices, so common and so cheap
    bool is_wrong = false;
    for (std::uint32_t row = 0; row < rows.count; ++row) is_wrong |= !IsOneHot(rows.Row<T>(row), 2);
    if (!is_wrong) return;
  }
  for (std::uint32_t row = 0; row < rows.count; ++row) {
    const T* vector = rows.Row<T>(row);
    for (std::size_t i = 0; i < spec.categories.size(); ++i) {
      if (!IsOneHot(vector, spec.categories[i])) {
        RefuseOneHot(spec, rows.EnvOf(row), i, vector, spec.categories[i]);
      }
      vector += spec.categories[i];
    }
  }
}

void CheckColumn(const ActionColumn& column, const Spec& spec, const RowBlock& rows) {
  const std::size_t size = spec.size();
  if (size == 0) return;
  if (column.one_hot) return CheckOneHot<std::int64_t>(spec, rows);
  WithNumber(spec.dtype, [&](auto zero) {
    using T = decltype(zero);
    spec.one_hot ? CheckOneHot<T>(spec, rows) : CheckNumbers<T>(column, spec, size, rows);
  });
}

}  // namespace

void CheckActions(const Layout& layout, const Config& config, const Batch& actions,
                  std::span<const std::uint32_t> envs, std::uint32_t num_steps) {
  ForEachRun(envs, [&](std::uint32_t first_env, std::uint32_t num_envs) {
    const std::uint32_t first = first_env * num_steps, count = num_envs * num_steps;
    std::size_t index = 0;
    for (const Spec& spec : config.specs()) {
      if (spec.role != TRP_ACTION) continue;
      const RowBlock rows{actions.Row(index, first), actions.stride[index], first, count, num_steps};
      CheckColumn(layout.actions[index], spec, rows);
      ++index;
    }
  });
}

}  // namespace torchrl_pool::core
