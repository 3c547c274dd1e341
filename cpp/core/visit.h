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

// Where the env at hand finds its actions.
struct ActionRows {
  explicit ActionRows(const Layout& layout) : given(layout.actions.size()), decoded(layout.actions.size()) {}
  void Bind(const Layout& layout, const Batch& batch, std::byte* scratch);

  RowCursor<const std::byte> given;  // of each column of the batch
  RowCursor<const void> decoded;     // of each action of the env
};

// Where the env at hand writes: straight into the batch wherever that is possible.
struct OutputRows {
  explicit OutputRows(const Layout& layout)
      : columns(layout.outputs.size()), targets(layout.targets.size()) {}
  void Bind(const Layout& layout, const Batch& batch, std::byte* scratch);
  void MoveTo(std::uint32_t row) {
    columns.MoveTo(row);
    targets.MoveTo(row);
  }

  RowCursor<std::byte> columns;  // of the batch
  RowCursor<void> targets;       // of the env's outputs
};

// The buffers of one thread.
class Scratch {
 public:
  explicit Scratch(const Layout& layout)
      : actions(layout), out(layout), root(layout), bytes_(layout.scratch_bytes) {}

  std::byte* bytes() { return bytes_.data(); }

  ActionRows actions;
  OutputRows out, root;
  std::vector<std::byte> rewards;  // of a step so far that repeats its action
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
  Visitor(const Layout& layout, const Ticket& ticket, Scratch& scratch);

  // Does the ticket's work for one env. On kFailed the reason is in scratch.error, and the env's rows hold
  // zeros.
  Result Visit(std::uint32_t env_index, EnvSlot& slot);

 private:
  Result VisitInStep(std::uint32_t row, EnvSlot& slot);
  bool Create(EnvSlot& slot);
  bool Seed(EnvSlot& slot, const std::vector<std::uint32_t>& words);
  bool Reset(EnvSlot& slot, OutputRows& rows, std::uint32_t row, const ResetOptions* options = nullptr);
  bool Step(EnvSlot& slot, std::uint32_t row, bool* done);
  bool StepOnce(EnvSlot& slot, bool* done);
  bool Repeat(EnvSlot& slot, std::uint32_t row, bool* done);
  void DecodeActions();
  bool RunStages(EnvSlot& slot, const OutputRows& rows, double reward);
  void WriteFlags(const OutputRows& rows, bool terminated, bool truncated);
  Result Fail(const Batch& batch, std::uint32_t row);
  void Clear(const Batch& batch, std::uint32_t row);

  const Layout& layout_;
  const Ticket& ticket_;
  Scratch& scratch_;
  bool root_is_bound_ = false;
};

}  // namespace torchrl_pool::core

#endif  // TORCHRL_POOL_CORE_VISIT_H_
