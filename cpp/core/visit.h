// What happens to one env in one visit of a thread: no threads and no queues here.
#ifndef TORCHRL_POOL_CORE_VISIT_H_
#define TORCHRL_POOL_CORE_VISIT_H_

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "home_queue.h"
#include "layout.h"
#include "ticket.h"

namespace torchrl_pool::core {

// One simulator and what the executor keeps about its episode. On cache lines of its own, since its home
// thread writes it at every step.
struct alignas(kCacheLine) EnvSlot {
  std::shared_ptr<const Config> config;
  trp_env* env = nullptr;
  std::int64_t max_episode_steps = 0;  // 0: no limit
  std::int64_t elapsed_steps = 0;
  std::span<float> episode_rewards;  // running sums, close to the other envs' of its home
};

enum class Result { kOk, kReset, kFailed };  // kReset: kStepAndReset started a new episode

// The buffers of one thread.
class Scratch {
 public:
  explicit Scratch(const Layout& layout);

  std::byte* bytes() { return bytes_.get(); }

  std::vector<const void*> actions;  // one per action
  std::vector<void*> outputs;        // one per output of the env
  trp_error error{};
  std::int64_t step = 0;        // that a visit is in, or has failed in: as EnvFault's
  std::vector<Result> results;  // of the chunk at hand

 private:
  struct Deleter {
    void operator()(std::byte* bytes) const { ::operator delete[](bytes, std::align_val_t{kCacheLine}); }
  };
  std::unique_ptr<std::byte[], Deleter> bytes_;
};

// Does the ticket's work for one env. On kFailed the reason is in scratch.error, and the env's rows hold
// zeros.
Result Visit(const Layout& layout, const Ticket& ticket, std::uint32_t env_index, EnvSlot& slot,
             Scratch& scratch);

}  // namespace torchrl_pool::core

#endif  // TORCHRL_POOL_CORE_VISIT_H_
