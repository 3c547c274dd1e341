// A visit: one thread runs one operation (create, reset, step) of one env and writes its row. No threads and
// no queues here.
#ifndef TORCHRL_POOL_CORE_VISIT_H_
#define TORCHRL_POOL_CORE_VISIT_H_

#include <cstdint>
#include <vector>

#include "cache_line.h"
#include "env_slot.h"
#include "errors.h"
#include "job.h"
#include "layout.h"

namespace torchrl_pool::core {

// Where an env writes its outputs: straight into the batch's tensors wherever possible.
struct OutputRows {
  explicit OutputRows(const Layout& layout) : targets(layout.targets.size()), values(layout.num_values()) {}

  const Batch* batch = nullptr;
  RowCursor<void> targets;  // of the outputs of the env at hand
  struct Flags {
    Rows terminated, truncated, done;
  } flags;
  std::byte unread{};        // where a flag goes that nobody wants
  ApartVector<Rows> values;  // of the layout's stages
};

// The buffers of one thread.
class Scratch {
  Gap before_;

 public:
  explicit Scratch(const Layout& layout)
      : actions(layout.actions.size()), out(layout), root(layout), bytes_(layout.scratch_bytes) {}

  std::byte* bytes() { return bytes_.data(); }

  // Stores the result of the i-th env of the chunk.
  void Note(std::size_t i, std::uint32_t env, Result result) {
    results[i] = result;
    if (result == Result::kFailed) faults.push_back({env, MessageOf(error), step, false, unchanged});
  }

  RowCursor<const void> actions;  // of the env at hand
  OutputRows out, root;
  ApartVector<std::byte> rewards;  // summed so far, in a step that repeats its action
  trp_error error{};
  Fault fault{&error};           // of a stage
  double told = 0.0;             // the reward, see Layout::kTold
  std::int64_t step = 0;         // the step that a visit is in or has failed in, as in EnvFault
  bool unchanged = false;        // where it has failed, as in EnvFault
  ApartVector<Result> results;   // of the chunk at hand
  std::vector<EnvFault> faults;  // of those that are kFailed

 private:
  ZeroedBytes bytes_;
  Gap after_;
};

// The visits of one thread for one job.
class Visitor {
 public:
  Visitor(const Layout& layout, const Job& job, Scratch& scratch);

  // Runs the job's operation on one env, once. On kFailed the reason is in scratch.error, and the env's rows
  // are zeroed. What follows is up to the executor: the job's chain, and BeginNext.
  Result Visit(std::uint32_t env_index, EnvSlot& slot);
  // Resets an env whose step has ended its episode: its first row goes to the job's root.
  Result BeginNext(std::uint32_t env_index, EnvSlot& slot);

 private:
  Result Create(EnvSlot& slot);
  Result SeedAndReset(std::uint32_t env_index, EnvSlot& slot);
  Result Step(std::uint32_t row, EnvSlot& slot);
  Result SeveralSteps(std::uint32_t env_index, EnvSlot& slot);
  void Bind(OutputRows& rows, const Batch& to);
  bool Reset(EnvSlot& slot, OutputRows& rows, std::uint32_t row, const ResetOptions* options = nullptr);
  bool StepTo(EnvSlot& slot, std::uint32_t row);
  void DecodeActions(std::uint32_t row);
  bool RunStages(EnvSlot& slot, OutputRows& rows, std::uint32_t row, Stage::When when);
  void WriteFlags(const OutputRows& rows, std::uint32_t row, bool terminated, bool truncated);
  void EndAgents(std::uint32_t row, bool truncated);
  Result Fail(const Batch& batch, std::uint32_t row);
  void Clear(const Batch& batch, std::uint32_t row);

  const Layout& layout_;
  const Job& job_;
  Scratch& scratch_;
  bool root_is_bound_ = false;
};

}  // namespace torchrl_pool::core

#endif  // TORCHRL_POOL_CORE_VISIT_H_
