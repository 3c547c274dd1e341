#include "fork.h"

#include <pthread.h>

namespace torchrl_pool::core {
namespace {

std::atomic<unsigned> generation{0};

}  // namespace

unsigned ForkGeneration() {
  static const int registered =
      pthread_atfork(nullptr, nullptr, [] { generation.fetch_add(1, std::memory_order_relaxed); });
  (void)registered;
  return generation.load(std::memory_order_relaxed);
}

}  // namespace torchrl_pool::core
