// The test framework, all of it: TEST declares a function, main.cc runs every one and reports. A check that
// does not hold prints where and what, and ends its test; the others still run.
#ifndef TORCHRL_POOL_TESTS_CHECK_H_
#define TORCHRL_POOL_TESTS_CHECK_H_

#include <concepts>
#include <cstddef>
#include <cstdio>
#include <exception>
#include <iterator>
#include <sstream>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#if defined(__has_feature)
#define TORCHRL_POOL_HAS_FEATURE(feature) __has_feature(feature)
#else
#define TORCHRL_POOL_HAS_FEATURE(feature) 0
#endif

namespace torchrl_pool::test {

#if defined(__SANITIZE_THREAD__) || TORCHRL_POOL_HAS_FEATURE(thread_sanitizer)
constexpr bool kThreadSanitizer = true;
#else
constexpr bool kThreadSanitizer = false;
#endif
#if defined(__SANITIZE_ADDRESS__) || TORCHRL_POOL_HAS_FEATURE(address_sanitizer)
constexpr bool kAddressSanitizer = true;
#else
constexpr bool kAddressSanitizer = false;
#endif

// How often to repeat something that takes `count` rounds without a sanitizer.
constexpr int Scaled(int count) {
  const int scaled = count / (kThreadSanitizer ? 10 : kAddressSanitizer ? 4 : 1);
  return scaled > 0 ? scaled : 1;
}

// Not a std::exception: code under test that catches those must not swallow a failed check.
struct CheckFailed {};

struct TestCase {
  const char* name;
  void (*run)();
};

inline std::vector<TestCase>& TestCases() {
  static std::vector<TestCase> cases;
  return cases;
}

inline bool AddTest(const char* name, void (*run)()) {
  TestCases().push_back({name, run});
  return true;
}

#define TEST(name)                                                                              \
  static void name();                                                                           \
  [[maybe_unused]] static const bool added_##name = ::torchrl_pool::test::AddTest(#name, name); \
  static void name()

[[noreturn]] inline void Fail(const char* file, int line, const std::string& what) {
  std::fprintf(stderr, "%s:%d: %s\n", file, line, what.c_str());
  throw CheckFailed();
}

template <class T>
std::string Show(const T& value) {
  std::ostringstream out;
  out.precision(17);
  if constexpr (requires { out << value; }) {
    out << value;
  } else if constexpr (std::is_enum_v<T>) {
    out << static_cast<long long>(value);
  } else if constexpr (requires { std::begin(value); }) {
    out << "[";
    const char* separator = "";
    for (const auto& element : value) out << std::exchange(separator, ", ") << Show(element);
    out << "]";
  } else {
    out << "<a value>";
  }
  return out.str();
}

// Integers by value, whatever their signs and widths.
template <class A, class B>
bool Equal(const A& a, const B& b) {
  if constexpr (std::integral<A> && std::integral<B> && !std::same_as<A, B> && !std::same_as<A, bool> &&
                !std::same_as<B, bool>) {
    return std::cmp_equal(a, b);
  } else {
    return a == b;
  }
}

template <class A, class B>
void CheckEqual(const char* file, int line, const char* text, const A& actual, const B& expected) {
  if (!Equal(actual, expected)) {
    Fail(file, line, std::string(text) + ": expected " + Show(expected) + ", got " + Show(actual));
  }
}

template <class Exception, class Function>
void CheckThrows(const char* file, int line, const char* text, const std::string& message,
                 Function&& function) {
  try {
    function();
  } catch (const Exception& e) {
    if (std::string(e.what()).find(message) != std::string::npos) return;
    Fail(file, line, std::string(text) + ": threw \"" + e.what() + "\", which lacks \"" + message + "\"");
  } catch (const std::exception& e) {
    Fail(file, line, std::string(text) + ": threw another type: " + e.what());
  }
  Fail(file, line, std::string(text) + ": did not throw");
}

#define CHECK(condition) \
  ((condition) ? void() : ::torchrl_pool::test::Fail(__FILE__, __LINE__, "not true: " #condition))
#define CHECK_EQ(actual, expected) \
  ::torchrl_pool::test::CheckEqual(__FILE__, __LINE__, #actual, actual, expected)
// CHECK_THROWS(type, part of the message, statement)
#define CHECK_THROWS(Exception, message, ...)                                             \
  ::torchrl_pool::test::CheckThrows<Exception>(__FILE__, __LINE__, #__VA_ARGS__, message, \
                                               [&] { __VA_ARGS__; })

}  // namespace torchrl_pool::test

#endif  // TORCHRL_POOL_TESTS_CHECK_H_
