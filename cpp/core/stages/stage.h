// What happens to an env's row after the env has written it: an ordered list of small steps, each over one
// row at a time, by the thread that still has the row in its cache.
#ifndef TORCHRL_POOL_CORE_STAGES_STAGE_H_
#define TORCHRL_POOL_CORE_STAGES_STAGE_H_

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <string>

#include "batch.h"
#include "torchrl_pool/abi.h"

namespace torchrl_pool::core {

// What a stage sees of one visit.
struct StageRow {
  const Batch& batch;
  std::uint32_t number;        // of the env's row in it
  void* const* written;        // where the env has written each of its outputs; null: it has not
  std::int64_t elapsed_steps;  // of the episode; 0: a reset has just begun it
  double reward;               // before it was rounded, where the env has told it; else NaN
  const trp_task* task;
  trp_env* env;
  trp_error* error;

  // Null: nobody wants it.
  std::byte* Column(std::size_t column) const { return batch.Row(column, number); }

  bool is_first() const { return elapsed_steps == 0; }

  // So that a stage that finds the env at fault can return Fail(...).
  template <class... Args>
  bool Fail(const char* format, Args... args) const {
    std::snprintf(error->message, sizeof error->message, format, args...);
    return false;
  }
};

// No threads here: different envs' rows may be run at the same time, one env's never are.
struct Stage {
  // False: the env has failed, and the row's error says why. `state`: the stage's, of this env.
  std::function<bool(const StageRow& row, std::byte* state)> run;

  // What it keeps about each env from one visit to the next: zeros at first, part of a saved state under this
  // name.
  std::size_t state_bytes = 0;
  std::string state_name = {};

  std::size_t state_offset = 0;  // the program's choice
};

}  // namespace torchrl_pool::core

#endif  // TORCHRL_POOL_CORE_STAGES_STAGE_H_
