// What follows a pool's own columns where a job asks for more: TorchRL's transforms as a program over
// rows.
//
// A chain reads the columns that the envs write, entries of the root that the caller hands in, and what its
// own earlier stages have made; it writes further columns of the same batches. It keeps nothing between two
// jobs: whatever outlives a step is an entry of the root or memory of the caller's, which stages hold by
// address.
//
// Stages of phase 0 run on the rows of the envs that a thread has just visited; those that are done then
// begin their next episodes. What depends on statistics of the whole batch runs in later phases of the job
// (see phases.h): before each of them the stages that learn see all rows at once, on one thread and in the
// order of the envs, so that nothing depends on how many threads there are.
#ifndef TORCHRL_POOL_CORE_CHAIN_H_
#define TORCHRL_POOL_CORE_CHAIN_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "batch.h"
#include "learning_locks.h"
#include "rows.h"

namespace torchrl_pool::core {

struct Job;

// Which value of a row: a column of the pool, one of the chain, an entry of the root that the step begins
// with, or memory of the thread's. Numbered in this order.
using ValueIndex = std::size_t;

// One env's values. Addresses are computed where they are asked for: most stages look at two or three values.
struct ChainRow {
  const Rows* values;        // from env 0 on; one without memory is null everywhere
  const std::byte* learned;  // what the stage has learned from all rows
  std::uint32_t env;

  template <class T>
  T* Get(ValueIndex value) const {
    return reinterpret_cast<T*>(values[value].From(env).base);
  }
};

// The values of consecutive envs.
struct ChainRows {
  const Rows* values;
  const std::byte* learned;
  std::uint32_t first, count;

  ChainRow Row(std::uint32_t i) const { return {values, learned, first + i}; }
};

// Calls `act(elements..., count)` for the elements of some values, whose rows have `size` of them: for those
// of all rows at once where they follow each other, so that the compiler can use vectors, else row by row.
template <class... T, class Act, std::size_t... i>
void ForElements(const ChainRows& rows, std::size_t size, const std::array<ValueIndex, sizeof...(T)>& values,
                 Act&& act, std::index_sequence<i...>) {
  const auto is_packed = [&](const Rows& value, std::size_t bytes) {
    return !value.base || value.stride == size * bytes;
  };
  const bool at_once = (is_packed(rows.values[values[i]], sizeof(T)) && ...);
  const std::size_t count = at_once ? size * rows.count : size;
  for (std::uint32_t row = 0; row < (at_once ? 1 : rows.count); ++row) {
    act(rows.Row(row).template Get<T>(values[i])..., count);
  }
}
template <class... T, class Act>
void ForElements(const ChainRows& rows, std::size_t size, const std::array<ValueIndex, sizeof...(T)>& values,
                 Act&& act) {
  ForElements<T...>(rows, size, values, act, std::index_sequence_for<T...>());
}

// The rows that a batch's statistics are taken from, in the order of the envs.
class BatchRows {
 public:
  // takes_root: envs that are done in `out` have begun an episode in `root`; else those that are `begun`
  // have.
  BatchRows(const Batch& out, const Batch& root, std::span<const std::uint32_t> envs, bool takes_root,
            std::size_t done, std::span<const std::uint32_t> begun = {})
      : out_(out), root_(root), envs_(envs), takes_root_(takes_root), done_(done), begun_(begun) {}

  std::size_t size() const { return envs_.size(); }
  std::uint32_t env(std::size_t i) const { return envs_[i]; }
  // Whether the i-th row begins an episode.
  bool Begins(std::size_t i) const {
    return takes_root_ ? *out_.Row(done_, envs_[i]) != std::byte{0}
                       : std::binary_search(begun_.begin(), begun_.end(), envs_[i]);
  }
  // What the i-th row holds of a column: of the root where the row has just begun an episode.
  const std::byte* Row(ValueIndex column, std::size_t i) const {
    return (takes_root_ && Begins(i) ? root_ : out_).Row(column, envs_[i]);
  }

 private:
  const Batch& out_;
  const Batch& root_;
  const std::span<const std::uint32_t> envs_;
  const bool takes_root_;
  const std::size_t done_;
  const std::span<const std::uint32_t> begun_;  // ascending
};

// No threads here: different envs' rows may be run at the same time, one env's never are.
class ChainStage {
 public:
  virtual ~ChainStage() = default;

  enum class When { kStep, kReset };

  // A step has written the rows, or a reset.
  virtual void Run(const ChainRows& rows, When when) const = 0;

  // For those that need the whole batch first. One thread at a time, of all that learn the same statistics.
  virtual bool learns() const { return false; }
  virtual Statistics statistics() const { return {}; }
  virtual std::size_t learned_bytes() const { return 0; }
  virtual void Learn(const BatchRows& rows, std::byte* learned) const {
    (void)rows;
    (void)learned;
  }
  std::size_t learned_offset = 0;  // the chain's choice
};

// A stage that is told as what it does with one env's row: Step(row) and, where that is something else,
// Reset(row).
template <class Stage>
class RowStage : public ChainStage {
 public:
  void Run(const ChainRows& rows, When when) const final {
    const auto& stage = static_cast<const Stage&>(*this);
    for (std::uint32_t i = 0; i < rows.count; ++i) {
      if (when == When::kStep) {
        stage.Step(rows.Row(i));
      } else {
        stage.Reset(rows.Row(i));
      }
    }
  }

  void Reset(const ChainRow& row) const { static_cast<const Stage&>(*this).Step(row); }
};

struct ChainColumns {
  std::size_t pool = 0;              // columns of the pool's own, which come first
  std::vector<std::size_t> columns;  // bytes of a row of each further one
  std::size_t pool_actions = 0;      // inputs of the pool's own, which come first
  std::vector<std::size_t> carried;  // bytes of a row of each entry of the root that is read
  std::vector<std::size_t> temps;    // bytes of each value that lives no longer than a phase
};

// How often a step applies its action, unless the episode ends before; rewards add up.
struct ActionRepeat {
  std::size_t times = 1;
  ValueIndex reward = 0;  // a column of the pool's own, of `size` numbers
  std::size_t size = 0;
  bool is_double = false;  // else they are floats
};

class Chain {
 public:
  using When = ChainStage::When;

  explicit Chain(ChainColumns columns);

  // `when`: whether it runs where a step has written the row, where a reset has, or both.
  void Add(std::size_t phase, std::shared_ptr<ChainStage> stage, bool at_steps, bool at_resets);

  void Repeat(const ActionRepeat& repeat) { repeat_ = repeat; }
  const ActionRepeat& repeat() const { return repeat_; }

  // The job's batches get the chain's columns, its actions what is carried.
  void Extend(Job& job) const;

  std::size_t num_phases() const { return phases_.size(); }
  bool HasStages(std::size_t phase, When when) const { return !StagesOf(phase, when).empty(); }
  std::size_t num_columns() const { return columns_.pool + columns_.columns.size(); }
  std::size_t num_inputs() const { return columns_.pool_actions + columns_.carried.size(); }

  // Lets the stages of a phase that learn see these rows. False: another thread holds the lock of what they
  // learn, and nothing has changed.
  bool Learn(Job& job, std::size_t phase, When when, const BatchRows& rows) const;

 private:
  friend class ChainRunner;
  using Stages = std::vector<std::shared_ptr<ChainStage>>;
  struct Phase {
    Stages at_steps, at_resets;
  };
  const Stages& StagesOf(std::size_t phase, When when) const {
    return when == When::kStep ? phases_[phase].at_steps : phases_[phase].at_resets;
  }

  const ChainColumns columns_;
  std::vector<std::size_t> temp_offsets_;
  std::size_t temp_bytes_ = 0;
  std::size_t learned_bytes_ = 0;
  std::vector<Phase> phases_;
  ActionRepeat repeat_;
};

// Runs a job's chain on rows of one of its batches, on one thread.
class ChainRunner {
 public:
  ChainRunner(const Job& job, const Batch& batch);
  ChainRunner(const ChainRunner&) = delete;

  // The stages of a phase, on the rows of consecutive envs.
  void Run(std::size_t phase, Chain::When when, std::uint32_t first, std::uint32_t count);

 private:
  const Job& job_;
  const Chain& chain_;
  std::array<Rows, 32> few_;
  std::vector<Rows> many_;
  Rows* values_ = few_.data();
  Rows* temps_;  // the last of them
};

}  // namespace torchrl_pool::core

#endif  // TORCHRL_POOL_CORE_CHAIN_H_
