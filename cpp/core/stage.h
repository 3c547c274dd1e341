// What happens to rows once a step or a reset has written them: TorchRL's transforms, and what a pool itself
// makes of what its envs write, are stages over the values of rows.
#ifndef TORCHRL_POOL_CORE_STAGE_H_
#define TORCHRL_POOL_CORE_STAGE_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <span>
#include <utility>

#include "batch.h"
#include "rows.h"
#include "torchrl_pool/abi.h"

namespace torchrl_pool::core {

// Which value of a row, in the numbering of whoever lists the stages: a Chain, or a Layout.
using ValueIndex = std::size_t;

// One env's values. Addresses are computed where they are asked for: most stages look at two or three values.
struct StageRow {
  const Rows* values;        // from env 0 on; one without memory is null everywhere
  const std::byte* learned;  // what the stage has learned from all rows
  std::uint32_t env;

  template <class T>
  T* Get(ValueIndex value) const {
    return reinterpret_cast<T*>(values[value].From(env).base);
  }
};

// The values of consecutive envs.
struct StageRows {
  const Rows* values;
  const std::byte* learned;
  std::uint32_t first, count;

  StageRow Row(std::uint32_t i) const { return {values, learned, first + i}; }
};

// Calls `act(elements..., count)` for the elements of some values, whose rows have `size` of them: for those
// of all rows at once where they follow each other, so that the compiler can use vectors, else row by row.
template <class... T, class Act, std::size_t... i>
void ForElements(const StageRows& rows, std::size_t size, const std::array<ValueIndex, sizeof...(T)>& values,
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
void ForElements(const StageRows& rows, std::size_t size, const std::array<ValueIndex, sizeof...(T)>& values,
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
class Stage {
 public:
  virtual ~Stage() = default;

  enum class When { kStep, kReset };

  // A step has written the rows, or a reset.
  virtual void Run(const StageRows& rows, When when) const = 0;

  // For those that need the whole batch first: one job at a time, in the order in which they were submitted.
  virtual std::size_t learned_bytes() const { return 0; }
  virtual void Learn(const BatchRows& rows, std::byte* learned) const {
    (void)rows;
    (void)learned;
  }
};

// Base of stages that are functions of one env's row: Step(row) and, where that is something else,
// Reset(row).
template <class Derived>
class RowStage : public Stage {
 public:
  void Run(const StageRows& rows, When when) const final {
    const auto& stage = static_cast<const Derived&>(*this);
    for (std::uint32_t i = 0; i < rows.count; ++i) {
      if (when == When::kStep) {
        stage.Step(rows.Row(i));
      } else {
        stage.Reset(rows.Row(i));
      }
    }
  }

  void Reset(const StageRow& row) const { static_cast<const Derived&>(*this).Step(row); }
};

// What a stage finds wrong with an env, where that is a value of its row: the visit fails then.
struct Fault {
  trp_error* error;
  bool is_found = false;

  template <class... Args>
  void Say(const char* format, Args... args) {
    is_found = true;
    std::snprintf(error->message, sizeof error->message, format, args...);
  }
};

}  // namespace torchrl_pool::core

#endif  // TORCHRL_POOL_CORE_STAGE_H_
