// Runs the tests of one executable: all of them, or those whose names contain the first argument.
#include <chrono>
#include <cstdio>
#include <cstring>
#include <exception>

#include "check.h"

int main(int argc, char** argv) {
  using Clock = std::chrono::steady_clock;
  using torchrl_pool::test::TestCases;
  int failures = 0;
  for (const auto& test : TestCases()) {
    if (argc > 1 && !std::strstr(test.name, argv[1])) continue;
    std::fprintf(stderr, "run    %s\n", test.name);  // so that it is known which one hangs or crashes
    const char* verdict = "FAILED";
    const auto start = Clock::now();
    try {
      test.run();
      verdict = "ok";
    } catch (const torchrl_pool::test::CheckFailed&) {
      ++failures;
    } catch (const std::exception& e) {
      ++failures;
      std::fprintf(stderr, "%s: uncaught exception: %s\n", test.name, e.what());
    }
    const std::chrono::duration<double> took = Clock::now() - start;
    std::fprintf(stderr, "%-6s %s (%.2f s)\n", verdict, test.name, took.count());
  }
  return failures == 0 ? 0 : 1;
}
