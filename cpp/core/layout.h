// The tensors of a batch, and how one env's row of them is found.
//
// Who owns what, when:
//
//               submit                     wait returns
//   caller ───────┬──────────────────────────┬──────────────────> the caller's for ever
//                 │ the job's workers        │
//                 │ write rows of the batch  │   the pool keeps no pointer
//                 └──────────────────────────┘
//
// Between the two nobody else reads or writes those tensors; a row is written by exactly one thread.
// Nothing that the pool needs later lives in a batch: not the last observation, not the running sums.
#ifndef TORCHRL_POOL_CORE_LAYOUT_H_
#define TORCHRL_POOL_CORE_LAYOUT_H_

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "batch.h"
#include "chain.h"
#include "plugin.h"
#include "stage.h"

namespace torchrl_pool::core {

// A tensor of a batch that an env or the executor writes.
struct OutputColumn {
  Spec spec;  // as the caller sees it
  std::size_t row_bytes;
};

// Where an env writes one of its outputs.
struct Target {
  static constexpr int kNoColumn = -1;
  static constexpr std::size_t kNoScratch = static_cast<std::size_t>(-1);

  int column;           // straight into the batch, where the caller wants that column
  std::size_t scratch;  // else here; kNoScratch: it need not be written
};

// A stage of the pool's own: it runs on one env's row within the visit that has written it.
struct OwnStage {
  static constexpr std::size_t kAlways = static_cast<std::size_t>(-1);

  std::shared_ptr<const Stage> stage;
  std::size_t column;  // which it writes: it does not run where nobody wants that. Or kAlways
};

// What is kept of an env from one visit to the next: zeros at first, part of a saved state under this name.
struct KeptState {
  std::string name;
  std::size_t bytes, offset;
};

struct ActionColumn {
  Spec spec;
  bool one_hot;  // the caller's rows are one-hot: int64 [sum of categories]
  bool bounded;  // numbers outside of its bounds are refused, and not only NaN and infinities
  std::size_t row_bytes;
  std::size_t scratch = 0;  // of the decoded categories
};

struct LayoutOptions {
  std::vector<std::string> info_keys;  // which TRP_INFO specs and which native keys to write
  bool one_hot = false;                // discrete actions and observations, as GymEnv does by default
  // Of floating-point observations; nothing: the env's own.
  std::optional<trp_dtype> obs_dtype = std::nullopt;
  bool from_pixels = false;     // add a picture of the env to its observations
  bool pixels_only = false;     // and leave out the env's own
  bool refuse_nan = false;      // an env that writes NaN has failed
  bool strict_actions = false;  // numbers outside of their bounds are refused too
};

// The columns of a pool's batches, and the program that turns what an env writes into them. An output that no
// stage has to see goes straight into the batch.
struct Layout {
  // Throws StatusError for an unknown info key.
  Layout(const Config& config, const LayoutOptions& options);

  std::vector<ActionColumn> actions;
  std::vector<OutputColumn> outputs;                       // in the order in which batches list them
  std::size_t terminated = 0, truncated = 0, done = 0;     // bool [1]: columns that the executor writes
  std::vector<std::size_t> agents_truncated, agents_done;  // flags of agents that a time limit sets too

  std::vector<Target> targets;                // of the env's outputs, in its order
  std::vector<OwnStage> at_steps, at_resets;  // in the order in which they run
  std::vector<KeptState> states;              // of one env
  std::size_t scratch_bytes = 0;              // of one thread
  std::size_t state_bytes = 0;                // of one env, for all stages
  Chain chain;                                // without stages: of jobs that ask for no other

  // The values of the own stages, in this order: the EnvSlot, the reward as a double that the env has told
  // (else nan), a Fault, where the env has written its outputs, the states, the columns.
  static constexpr ValueIndex kSlot = 0, kTold = 1, kFault = 2, kFirstOutput = 3;
  ValueIndex StateValue(std::size_t i) const { return kFirstOutput + num_outputs_ + i; }
  ValueIndex ColumnValue(std::size_t i) const { return kFirstOutput + 2 * num_outputs_ + i; }
  std::size_t num_values() const { return ColumnValue(outputs.size()); }

 private:
  std::size_t AddColumn(Spec spec);
  void AddAction(const Spec& spec, const LayoutOptions& options);
  void AddOutput(const Spec& spec, const LayoutOptions& options, bool is_wanted);
  void AddStage(std::shared_ptr<const Stage> stage, std::size_t column = OwnStage::kAlways,
                bool runs_at_resets = true);
  void AddSum(std::size_t output, const Spec& reward);

  std::size_t num_outputs_ = 0;  // of the env; there are no more states
};

// The names of the executor's own info keys.
std::vector<std::string> NativeKeys(const Config& config);

// Why two configurations cannot share a pool; empty where they can. Bounds may differ.
std::string Mismatch(const Config& a, const Config& b);

}  // namespace torchrl_pool::core

#endif  // TORCHRL_POOL_CORE_LAYOUT_H_
