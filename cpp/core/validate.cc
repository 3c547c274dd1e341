#include "validate.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <sstream>

#include "errors.h"

namespace torchrl_pool::core {
namespace {

// A number in as few digits as tell it from its neighbours.
std::string Shortest(double value, trp_dtype dtype) {
  char text[32];
  for (int digits = 1; digits <= 17; ++digits) {
    std::snprintf(text, sizeof text, "%.*g", digits, value);
    const double read = dtype == TRP_FLOAT32 ? std::strtof(text, nullptr) : std::strtod(text, nullptr);
    if (read == value) break;
  }
  return text;
}

template <class Got>
[[noreturn]] void Refuse(const Spec& spec, std::uint32_t env, std::size_t element, Got got,
                         const std::string& expected) {
  std::ostringstream message;
  message << "'" << spec.name << "' of env " << env;
  if (spec.size() > 1) message << ", element " << element;
  message << ": expected " << expected << ", got " << got;
  throw StatusError(TRP_INVALID_ARGUMENT, message.str());
}

void CheckOneHot(const Spec& spec, const std::int64_t* row, std::uint32_t env) {
  for (std::size_t i = 0; i < spec.categories.size(); ++i) {
    const std::int64_t count = spec.categories[i];
    std::int64_t ones = 0, others = 0;
    for (std::int64_t k = 0; k < count; ++k) {
      ones += row[k] == 1;
      others += row[k] != 0 && row[k] != 1;
    }
    if (ones != 1 || others != 0) {
      std::ostringstream got;
      got << "[";
      for (std::int64_t k = 0; k < count; ++k) got << (k ? ", " : "") << row[k];
      got << "]";
      Refuse(spec, env, i, got.str(), "a one-hot vector of " + std::to_string(count) + " entries");
    }
    row += count;
  }
}

void CheckCategories(const Spec& spec, const std::int64_t* row, std::uint32_t env) {
  for (std::size_t i = 0; i < spec.categories.size(); ++i) {
    if (row[i] < 0 || row[i] >= spec.categories[i]) {
      Refuse(spec, env, i, row[i], "one of 0 to " + std::to_string(spec.categories[i] - 1));
    }
  }
}

template <class T>
void CheckNumbers(const Spec& spec, std::size_t size, const T* row, std::uint32_t env) {
  // Largest finite values where there is no bound: infinities are refused as NaN is.
  constexpr auto kMax = static_cast<double>(std::numeric_limits<T>::max());
  constexpr auto kLowest = static_cast<double>(std::numeric_limits<T>::lowest());
  for (std::size_t i = 0; i < size; ++i) {
    const double low = spec.low.empty() ? kLowest : std::max(spec.low[i], kLowest);
    const double high = spec.high.empty() ? kMax : std::min(spec.high[i], kMax);
    const auto value = static_cast<double>(row[i]);
    if constexpr (std::is_integral_v<T>) {
      // Compared as integers: doubles do not tell large ones apart.
      const T least = low <= kLowest ? std::numeric_limits<T>::min() : static_cast<T>(std::ceil(low));
      const T most = high >= kMax ? std::numeric_limits<T>::max() : static_cast<T>(std::floor(high));
      if (row[i] >= least && row[i] <= most) continue;
    } else {
      if (value >= low && value <= high) continue;  // false for NaN
    }
    const std::string got = std::is_integral_v<T> ? std::to_string(row[i]) : Shortest(value, spec.dtype);
    if (spec.low.empty() && spec.high.empty()) Refuse(spec, env, i, got, "a finite number");
    Refuse(spec, env, i, got,
           "a number in [" + Shortest(low, spec.dtype) + ", " + Shortest(high, spec.dtype) + "]");
  }
}

template <class T>
const T* As(const std::byte* row) {
  return reinterpret_cast<const T*>(row);
}

void CheckRow(const ActionColumn& column, const Spec& spec, std::size_t size, const std::byte* row,
              std::uint32_t env) {
  if (column.one_hot) return CheckOneHot(spec, As<std::int64_t>(row), env);
  if (!spec.categories.empty()) return CheckCategories(spec, As<std::int64_t>(row), env);
  switch (spec.dtype) {
    case TRP_BOOL:
      for (std::size_t i = 0; i < size; ++i) {
        const auto value = std::to_integer<int>(row[i]);
        if (value > 1) Refuse(spec, env, i, value, "a bool");
      }
      return;
    case TRP_UINT8:
      return CheckNumbers(spec, size, As<std::uint8_t>(row), env);
    case TRP_INT8:
      return CheckNumbers(spec, size, As<std::int8_t>(row), env);
    case TRP_INT16:
      return CheckNumbers(spec, size, As<std::int16_t>(row), env);
    case TRP_INT32:
      return CheckNumbers(spec, size, As<std::int32_t>(row), env);
    case TRP_INT64:
      return CheckNumbers(spec, size, As<std::int64_t>(row), env);
    case TRP_FLOAT32:
      return CheckNumbers(spec, size, As<float>(row), env);
    case TRP_FLOAT64:
      return CheckNumbers(spec, size, As<double>(row), env);
  }
}

}  // namespace

void CheckActions(const Layout& layout, const Config& config, const Batch& actions, std::uint32_t first,
                  std::uint32_t count) {
  std::size_t index = 0;
  for (const Spec& spec : config.specs()) {
    if (spec.role != TRP_ACTION) continue;
    const ActionColumn& column = layout.actions[index];
    const std::size_t size = spec.size();
    for (std::uint32_t env = first; env < first + count; ++env) {
      CheckRow(column, spec, size, actions.Row(index, env), env);
    }
    ++index;
  }
}

}  // namespace torchrl_pool::core
