// The tensors of a batch, and how one env's row of them is found.
//
// Who owns what, when:
//
//               submit                     wait returns
//   caller ───────┬──────────────────────────┬──────────────────> the caller's for ever
//                 │ the ticket's workers      │
//                 │ write rows of the batch   │   the pool keeps no pointer
//                 └──────────────────────────┘
//
// Between the two nobody else reads or writes those tensors; a row is written by exactly one thread.
// Nothing that the pool needs later lives in a batch: not the last observation, not the running sums.
#ifndef TORCHRL_POOL_CORE_LAYOUT_H_
#define TORCHRL_POOL_CORE_LAYOUT_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "plugin.h"
#include "rows.h"

namespace torchrl_pool::core {

using Converter = void (*)(const void* from, void* to, std::size_t count);

// A tensor of a batch that an env or the executor writes.
struct OutputColumn {
  Spec spec;  // as the caller sees it
  std::size_t row_bytes;
};

// An output of the env that the caller wants in another dtype: it passes through scratch.
struct ConvertedOutput {
  std::size_t column;
  std::size_t task_output;
  std::size_t scratch_offset;
  std::size_t size;  // elements
  Converter convert;
};

// A discrete observation that the caller wants one-hot: the env writes its numbers to scratch.
struct OneHotOutput {
  std::size_t column;
  std::size_t task_output;
  std::size_t scratch_offset;
  std::vector<std::int64_t> categories;  // one for each element
};

// An output of the env that must not be NaN.
struct NumberOutput {
  std::size_t task_output;
  std::size_t size;  // elements
  bool is_double;
  bool is_reward;  // written by steps only
  std::string name;
};

// The running sum of a reward since reset, as TorchRL's RewardSum.
struct EpisodeReward {
  std::size_t column;
  std::size_t task_output;  // the reward
  std::size_t offset;       // into an env's running sums
  std::size_t size;         // elements
};

struct ActionColumn {
  Spec spec;
  bool one_hot;  // the caller's rows are one-hot: int64 [sum of categories]
  std::size_t row_bytes;
  std::size_t scratch_offset = 0;  // of the decoded categories
};

struct LayoutOptions {
  std::vector<std::string> info_keys;  // which TRP_INFO specs and which native keys to write
  bool one_hot = false;                // discrete actions and observations, as GymEnv does by default
  int float_dtype = -1;      // a trp_dtype that floating-point observations are given in; -1: the env's own
  bool from_pixels = false;  // add a picture of the env to its observations
  bool pixels_only = false;  // and leave out the env's own
  bool refuse_nan = false;   // an env that writes NaN has failed
};

struct Layout {
  // Throws StatusError for an unknown info key.
  Layout(const Config& config, const LayoutOptions& options);

  std::vector<ActionColumn> actions;
  std::vector<OutputColumn> outputs;  // in the order in which batches list them

  // The env's own outputs, in its order: the column, and where it writes what must not go into the batch.
  static constexpr int kUnwanted = -1;  // need not be written
  static constexpr int kHidden = -2;    // must be written, but nobody sees it
  std::vector<int> task_columns;
  std::vector<std::size_t> task_scratch;
  std::vector<ConvertedOutput> converted;
  std::vector<OneHotOutput> one_hot;
  std::vector<NumberOutput> numbers;  // empty unless NaN is refused
  std::size_t scratch_bytes = 0;      // of one thread

  // The executor's own outputs, by column; -1: not asked for.
  std::size_t terminated = 0, truncated = 0, done = 0;  // bool [1]
  int step_count = -1;                                  // int64 [1]: steps since reset, as StepCounter
  int is_init = -1;                                     // bool [1]: first observation, as InitTracker
  int pixels = -1;                                      // uint8 [height, width, 3]
  std::vector<EpisodeReward> episode_rewards;
  std::size_t reward_size = 0;  // floats that an env's running sums take
};

// The names of the executor's own info keys.
std::vector<std::string> NativeKeys(const Config& config);

// Where the columns of one batch lie. Bases may be null: nobody wants that column.
struct Batch {
  std::vector<std::byte*> base;
  std::vector<std::size_t> stride;  // bytes from a row to the next

  std::byte* Row(std::size_t column, std::size_t row) const {
    return base[column] ? base[column] + row * stride[column] : nullptr;
  }
  Rows RowsFrom(std::size_t column, std::size_t row) const { return {Row(column, row), stride[column]}; }
};

// Why two configurations cannot share a pool; empty where they can. Bounds may differ.
std::string Mismatch(const Config& a, const Config& b);

}  // namespace torchrl_pool::core

#endif  // TORCHRL_POOL_CORE_LAYOUT_H_
