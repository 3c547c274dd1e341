// Memory that runs out: in the caller's thread, or in one of the pool's.
#include <sys/resource.h>

#include <cstdint>
#include <cstdlib>
#include <new>
#include <optional>
#include <vector>

#include "check.h"
#include "concurrency.h"
#include "fixture.h"
#include "outbox.h"
#include "pool.h"

namespace {

// How many more allocations of this thread succeed before the next one fails, once.
thread_local std::optional<int> allocations_left;

}  // namespace

// Inlined, they would look to the compiler like new and free.
[[gnu::noinline]] void* operator new(std::size_t bytes) {
  if (allocations_left && (*allocations_left)-- == 0) {
    allocations_left.reset();
    throw std::bad_alloc();
  }
  if (void* memory = std::malloc(bytes)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace torchrl_pool::core {
namespace {

bool Never() { return false; }

// Whichever allocation fails: what could not be delivered is delivered again, and each env is named once.
TEST(WhereMemoryRunsOutNothingIsDelivered) {
  const std::vector<std::uint32_t> envs = {0, 1, 2};
  const Result results[] = {Result::kFailed, Result::kOk, Result::kFailed};
  int refused = 0;
  for (int first_to_fail = 0; first_to_fail < 12; ++first_to_fail) {
    Outbox outbox(3, nullptr);  // nobody waits
    outbox.Expect(Op::kStep, envs, false, nullptr);
    const auto deliver = [&] {
      std::vector<EnvFault> faults = {
          {0, "a message that is longer than what a string has room for itself", 0},
          {2, "another message of more than sixteen characters", 0}};
      outbox.Deliver(Op::kStep, envs, results, faults);
    };
    try {
      allocations_left = first_to_fail;
      deliver();
    } catch (const std::bad_alloc&) {
      ++refused;
      deliver();
    }
    allocations_left.reset();
    const auto failed = outbox.Receive(Op::kStep, 1, 0, std::nullopt, Never);
    CHECK_EQ(failed->faults.size(), 2u);
    CHECK_EQ(failed->faults[0].env_index, 0);
    CHECK_EQ(failed->faults[1].env_index, 2);
    const auto received = outbox.Receive(Op::kStep, 1, 0, std::nullopt, Never);
    CHECK_EQ(received->envs, (std::vector<std::uint32_t>{1}));
  }
  CHECK(refused > 3);
  CHECK(refused < 12);
}

TEST(APoolWithoutMemoryForItsThreadsIsRefused) {
  if (test::kThreadSanitizer || test::kAddressSanitizer) return;  // they take all addresses for themselves
  const int said = test::RunInChild(60, [] {
    const auto config = test::MakeConfig("huge_plugin", "Huge-v0");
    const rlimit limit{700u << 20, 700u << 20};
    setrlimit(RLIMIT_AS, &limit);
    PoolOptions options;
    options.threads.num_threads = 2;
    try {
      Pool::Open(std::vector<EnvRequest>(2, EnvRequest{config, 0}), options, [] { return false; });
    } catch (const std::bad_alloc&) {
      return 1;
    } catch (const PoolError&) {
      return 1;
    }
    return 2;
  });
  CHECK_EQ(said, 1);
}

}  // namespace
}  // namespace torchrl_pool::core
