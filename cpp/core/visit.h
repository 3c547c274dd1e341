// What happens to one env in one visit of a thread: no threads and no queues here.
#ifndef TORCHRL_POOL_CORE_VISIT_H_
#define TORCHRL_POOL_CORE_VISIT_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "cache_line.h"
#include "layout.h"
#include "ticket.h"

namespace torchrl_pool::core {

// One simulator and what the executor keeps about its episode. On cache lines of its own, since its home
// thread writes it at every step. All zeros before its creation.
struct alignas(kCacheLine) EnvSlot {
  const Config* config;
  const trp_task* task;  // of the config
  trp_env* env;
  std::int64_t max_episode_steps;  // 0: no limit
  std::int64_t elapsed_steps;
  std::byte* state;  // of the stages
};

// The buffers of one thread.
class Scratch {
 public:
  explicit Scratch(const Layout& layout);

  std::byte* bytes() { return bytes_.data(); }

  std::vector<const void*> actions;  // of the env at hand, one per action
  std::vector<void*> outputs;        // where it writes, one per output of the env
  std::vector<std::byte*> columns;   // its row of each column of the batch
  trp_error error{};
  std::int64_t step = 0;         // that a visit is in, or has failed in: as EnvFault's
  std::vector<Result> results;   // of the chunk at hand
  std::vector<EnvFault> faults;  // of those that are kFailed, in their order

 private:
  ZeroedBytes bytes_;
};

// The visits of one thread on behalf of one ticket.
class Visitor {
 public:
  Visitor(const Layout& layout, const Ticket& ticket, Scratch& scratch)
      : layout_(layout), ticket_(ticket), scratch_(scratch) {}

  // Does the ticket's work for one env. On kFailed the reason is in scratch.error, and the env's rows hold
  // zeros.
  Result Visit(std::uint32_t env_index, EnvSlot& slot);

 private:
  Result VisitInStep(std::uint32_t row, EnvSlot& slot);
  bool Create(EnvSlot& slot);
  bool Seed(EnvSlot& slot, const std::vector<std::uint32_t>& words);
  bool Reset(EnvSlot& slot, const Batch& batch, std::uint32_t row, const ResetOptions* options = nullptr);
  bool Step(EnvSlot& slot, std::uint32_t row, bool* done);
  void BindActions(std::uint32_t row);
  void BindOutputs(const Batch& batch, std::uint32_t row);
  bool RunStages(EnvSlot& slot);
  void WriteFlag(std::size_t column, bool value);
  Result Fail(const Batch& batch, std::uint32_t row);
  void Clear(const Batch& batch, std::uint32_t row);

  const Layout& layout_;
  const Ticket& ticket_;
  Scratch& scratch_;
};

}  // namespace torchrl_pool::core

#endif  // TORCHRL_POOL_CORE_VISIT_H_
