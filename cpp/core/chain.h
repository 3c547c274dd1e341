// What follows a pool's own columns where a job asks for more: TorchRL's transforms as a program over
// rows. Every job has a chain; the pool's own has no stages.
//
// A chain reads the columns that the envs write, entries of the root that the caller hands in, and what its
// own earlier stages have made; it writes further columns of the same batches. It keeps nothing between two
// jobs: whatever outlives a step is an entry of the root or memory of the caller's, which stages hold by
// address.
//
// Stages of phase 0 run on the rows of the envs that a thread has just visited; those that are done then
// begin their next episodes. What depends on statistics of the whole batch runs in later phases of the job
// (see executor.cc): before each of them the stages see all rows at once, on one thread and in the order of
// the envs, so that nothing depends on how many threads there are.
#ifndef TORCHRL_POOL_CORE_CHAIN_H_
#define TORCHRL_POOL_CORE_CHAIN_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "batch.h"
#include "rows.h"
#include "stage.h"

namespace torchrl_pool::core {

struct Job;

// Values are numbered in this order.
struct ChainColumns {
  std::size_t pool = 0;                   // columns of the pool's own
  std::vector<std::size_t> columns = {};  // bytes of a row of each further one
  std::size_t pool_actions = 0;           // inputs of the pool's own, which come before what is carried
  std::vector<std::size_t> carried = {};  // bytes of a row of each entry of the root that is read
  std::vector<std::size_t> temps = {};    // bytes of each value that lives no longer than a phase
};

// How often a step applies its action, unless the episode ends before; rewards add up.
struct ActionRepeat {
  std::size_t times = 1;
  ValueIndex reward = 0;  // a column of the pool's own, of `size` numbers
  std::size_t size = 0;
  bool is_double = false;  // else they are floats

  std::size_t bytes() const { return size * (is_double ? sizeof(double) : sizeof(float)); }
  void AddUp(const std::byte* earlier, std::byte* now) const;
};

class Chain {
 public:
  using When = Stage::When;

  explicit Chain(ChainColumns columns = {});

  // `when`: whether it runs where a step has written the row, where a reset has, or both.
  void Add(std::size_t phase, std::shared_ptr<const Stage> stage, bool at_steps, bool at_resets);

  void Repeat(const ActionRepeat& repeat) { repeat_ = repeat; }
  const ActionRepeat& repeat() const { return repeat_; }

  // The job's batches get the chain's columns, its actions what is carried.
  void Extend(Job& job) const;

  std::size_t num_phases() const { return phases_.size(); }
  bool HasStages(std::size_t phase, When when) const { return !StagesOf(phase, when).empty(); }
  std::size_t num_columns() const { return columns_.pool + columns_.columns.size(); }
  std::size_t num_inputs() const { return columns_.pool_actions + columns_.carried.size(); }

  // Shows these rows to the stages of a phase, one after the other.
  void Learn(Job& job, std::size_t phase, When when, const BatchRows& rows) const;

 private:
  friend class ChainRunner;
  struct Listed {
    std::shared_ptr<const Stage> stage;
    std::size_t learned;  // where what it has learned begins
  };
  using Stages = std::vector<Listed>;
  struct Phase {
    Stages at_steps, at_resets;
  };
  const Stages& StagesOf(std::size_t phase, When when) const {
    return when == When::kStep ? phases_[phase].at_steps : phases_[phase].at_resets;
  }

  ChainColumns columns_;
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
