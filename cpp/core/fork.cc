#include "fork.h"

#include <pthread.h>

namespace torchrl_pool::core {

std::atomic<unsigned> internal::fork_generation{0};

namespace {

[[maybe_unused]] const int registered = pthread_atfork(
    nullptr, nullptr, [] { internal::fork_generation.fetch_add(1, std::memory_order_relaxed); });

}  // namespace
}  // namespace torchrl_pool::core
