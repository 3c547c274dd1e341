// Memory that runs out: in the caller's thread, or in one of the pool's.
#include <sys/resource.h>

#include <new>
#include <vector>

#include "check.h"
#include "concurrency.h"
#include "fixture.h"
#include "outbox.h"
#include "pool.h"

namespace torchrl_pool::core {
namespace {

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
