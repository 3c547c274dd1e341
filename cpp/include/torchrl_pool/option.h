// Options: declared once, by a struct whose Visit names its members, and parsed by the same Visit.
#ifndef TORCHRL_POOL_OPTION_H_
#define TORCHRL_POOL_OPTION_H_

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "torchrl_pool/abi.h"

#pragma GCC visibility push(hidden)  // the parts of two plugins must not merge in one process
namespace torchrl_pool {

// A thing of the simulator, by number or by name.
using IntOrString = std::variant<std::int64_t, std::string>;
// Numbers by name, such as {"lookat": [0, 0, 1]}.
using FloatListMap = std::map<std::string, std::vector<double>>;

// Restrictions on an option, as the last argument of a visit.
template <class T>
struct Limits {
  std::vector<T> choices = {};
  double minimum = -std::numeric_limits<double>::infinity();
  double maximum = std::numeric_limits<double>::infinity();
};

namespace internal {

// How each C++ type stands for an option's value.
template <class T>
struct OptionTraits;

template <class T>
  requires(std::is_integral_v<T>)
struct OptionTraits<T> {
  using Storage = std::vector<std::int64_t>;
  static constexpr trp_type kType = std::is_same_v<T, bool> ? TRP_TYPE_BOOL : TRP_TYPE_INT;
  static Storage Store(T value) { return {static_cast<std::int64_t>(value)}; }
  static T Load(const trp_value& value) { return static_cast<T>(value.ints[0]); }
};
template <class T>
  requires(std::is_floating_point_v<T>)
struct OptionTraits<T> {
  using Storage = std::vector<double>;
  static constexpr trp_type kType = TRP_TYPE_FLOAT;
  static Storage Store(T value) { return {value}; }
  static T Load(const trp_value& value) { return static_cast<T>(value.floats[0]); }
};
template <>
struct OptionTraits<std::string> {
  using Storage = std::string;
  static constexpr trp_type kType = TRP_TYPE_STRING;
  static Storage Store(const std::string& value) { return value; }
  static std::string Load(const trp_value& value) { return value.string; }
};
template <>
struct OptionTraits<std::vector<std::int64_t>> {
  using Storage = std::vector<std::int64_t>;
  static constexpr trp_type kType = TRP_TYPE_INT_LIST;
  static Storage Store(const Storage& value) { return value; }
  static Storage Load(const trp_value& value) { return {value.ints, value.ints + value.count}; }
};
template <>
struct OptionTraits<std::vector<double>> {
  using Storage = std::vector<double>;
  static constexpr trp_type kType = TRP_TYPE_FLOAT_LIST;
  static Storage Store(const Storage& value) { return value; }
  static Storage Load(const trp_value& value) { return {value.floats, value.floats + value.count}; }
};
template <>
struct OptionTraits<std::vector<std::string>> {
  using Storage = std::vector<std::string>;
  static constexpr trp_type kType = TRP_TYPE_STRING_LIST;
  static Storage Store(const Storage& value) { return value; }
  static Storage Load(const trp_value& value) {
    Storage strings;
    for (std::int64_t i = 0; i < value.count; ++i) strings.emplace_back(value.entries[i].key);
    return strings;
  }
};
template <>
struct OptionTraits<IntOrString> {
  using Storage = IntOrString;
  static constexpr trp_type kType = TRP_TYPE_INT_OR_STRING;
  static Storage Store(const IntOrString& value) { return value; }
  static IntOrString Load(const trp_value& value) {
    if (value.string) return std::string(value.string);
    return value.ints[0];
  }
};
template <>
struct OptionTraits<FloatListMap> {
  using Storage = FloatListMap;
  static constexpr trp_type kType = TRP_TYPE_FLOAT_LIST_MAP;
  static Storage Store(const FloatListMap& value) { return value; }
  static FloatListMap Load(const trp_value& value) {
    FloatListMap map;
    for (std::int64_t i = 0; i < value.count; ++i) {
      const trp_entry& entry = value.entries[i];
      map[entry.key].assign(entry.numbers, entry.numbers + entry.count);
    }
    return map;
  }
};
template <class T, std::size_t size>
struct OptionTraits<std::array<T, size>> {
  using List = OptionTraits<std::vector<T>>;
  using Storage = std::vector<T>;
  static constexpr trp_type kType = List::kType;
  static Storage Store(const std::array<T, size>& value) { return {value.begin(), value.end()}; }
  static std::array<T, size> Load(const trp_value& value) {
    std::array<T, size> array;
    const auto list = List::Load(value);
    std::copy_n(list.begin(), size, array.begin());
    return array;
  }
};
template <class T>
constexpr std::int64_t kFixedCount = -1;
template <class T, std::size_t size>
constexpr std::int64_t kFixedCount<std::array<T, size>> = static_cast<std::int64_t>(size);

template <class T>
struct Unwrap {
  using Type = T;
  static constexpr bool kNullable = false;
};
template <class T>
struct Unwrap<std::optional<T>> {
  using Type = T;
  static constexpr bool kNullable = true;
};

// Visits an Options struct and keeps its declarations, with the members' values as the defaults.
class OptionDeclarer {
 public:
  template <class T>
  void operator()(const char* name, T& member, const char* help,
                  Limits<typename Unwrap<T>::Type> limits = {}) {
    using Traits = OptionTraits<typename Unwrap<T>::Type>;
    trp_option option{};
    option.name = name;
    option.help = help;
    option.nullable = Unwrap<T>::kNullable;
    option.minimum = limits.minimum;
    option.maximum = limits.maximum;
    using Type = typename Unwrap<T>::Type;
    if constexpr (std::is_integral_v<Type> && !std::is_same_v<Type, bool> &&
                  !std::is_same_v<Type, std::int64_t>) {  // what a narrower member holds
      using Numbers = std::numeric_limits<Type>;
      option.minimum = std::max(option.minimum, static_cast<double>(Numbers::min()));
      option.maximum = std::min(option.maximum, static_cast<double>(Numbers::max()));
    }
    option.fixed_count = kFixedCount<typename Unwrap<T>::Type>;
    if constexpr (Unwrap<T>::kNullable) {
      if (member)
        option.default_value = Keep<Traits>(*member);
      else
        option.default_value = {.type = Traits::kType,
                                .is_none = 1,
                                .count = 0,
                                .ints = nullptr,
                                .floats = nullptr,
                                .string = nullptr,
                                .entries = nullptr};
    } else {
      option.default_value = Keep<Traits>(member);
    }
    if (!limits.choices.empty()) {
      auto& choices = choices_.emplace_back();
      for (const auto& choice : limits.choices) choices.push_back(Keep<Traits>(choice));
      option.choices = choices.data();
      option.num_choices = static_cast<std::int64_t>(choices.size());
    }
    options_.push_back(option);
  }

  const std::vector<trp_option>& options() const { return options_; }

 private:
  template <class Traits, class T>
  trp_value Keep(const T& native) {
    trp_value value{};
    value.type = Traits::kType;
    value.count = 1;
    Point(&value, Traits::Store(native));
    return value;
  }

  // Keeps what a value points to.
  void Point(trp_value* value, const std::string& string) {
    value->string = strings_.emplace_back(string).c_str();
  }
  void Point(trp_value* value, const std::vector<std::int64_t>& ints) {
    value->count = static_cast<std::int64_t>(ints.size());
    value->ints = ints_.emplace_back(ints).data();
  }
  void Point(trp_value* value, const std::vector<double>& floats) {
    value->count = static_cast<std::int64_t>(floats.size());
    value->floats = floats_.emplace_back(floats).data();
  }
  void Point(trp_value* value, const std::vector<std::string>& strings) {
    auto& entries = entries_.emplace_back();
    for (const auto& string : strings) {
      entries.push_back({strings_.emplace_back(string).c_str(), 0, nullptr});
    }
    value->count = static_cast<std::int64_t>(entries.size());
    value->entries = entries.data();
  }
  void Point(trp_value* value, const IntOrString& either) {
    if (const auto* string = std::get_if<std::string>(&either)) {
      Point(value, *string);
    } else {
      Point(value, std::vector<std::int64_t>{std::get<std::int64_t>(either)});
    }
  }
  void Point(trp_value* value, const FloatListMap& map) {
    auto& entries = entries_.emplace_back();
    for (const auto& [key, numbers] : map) {
      entries.push_back({strings_.emplace_back(key).c_str(), static_cast<std::int64_t>(numbers.size()),
                         floats_.emplace_back(numbers).data()});
    }
    value->count = static_cast<std::int64_t>(entries.size());
    value->entries = entries.data();
  }

  std::vector<trp_option> options_;
  // Deques: what an option points to must not move when the next is declared.
  std::deque<std::vector<trp_value>> choices_;
  std::deque<std::vector<std::int64_t>> ints_;
  std::deque<std::vector<double>> floats_;
  std::deque<std::string> strings_;
  std::deque<std::vector<trp_entry>> entries_;
};

// Visits an Options struct in the same order and fills its members.
class OptionParser {
 public:
  explicit OptionParser(const trp_value* values) : next_(values) {}

  template <class T>
  void operator()(const char*, T& member, const char*, Limits<typename Unwrap<T>::Type> = {}) {
    const trp_value& value = *next_++;
    using Traits = OptionTraits<typename Unwrap<T>::Type>;
    if constexpr (Unwrap<T>::kNullable) {
      if (value.is_none) {
        member.reset();
        return;
      }
    }
    member = Traits::Load(value);
  }

 private:
  const trp_value* next_;
};

// Visits a struct of which the caller chose some members, and leaves the others as they are.
class ChoiceParser {
 public:
  explicit ChoiceParser(const trp_value* const* values) : next_(values) {}

  template <class T>
  void operator()(const char* name, T& member, const char* help,
                  Limits<typename Unwrap<T>::Type> limits = {}) {
    if (const trp_value* value = *next_++) OptionParser{value}(name, member, help, limits);
  }

 private:
  const trp_value* const* next_;
};

}  // namespace internal

}  // namespace torchrl_pool
#pragma GCC visibility pop

#endif  // TORCHRL_POOL_OPTION_H_
