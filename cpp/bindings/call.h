// What a call of the pool is given, and the one place where it fills a job.
#ifndef TORCHRL_POOL_BINDINGS_CALL_H_
#define TORCHRL_POOL_BINDINGS_CALL_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "chain.h"
#include "columns.h"
#include "errors.h"
#include "job.h"
#include "pool_handle.h"
#include "rollout_rows.h"

namespace torchrl_pool::bindings {

// What a reset is given beside its envs. For each env of the pool: words of its seed, empty for none, and its
// options; each list may be empty. The number under which workers have been told options of their own.
using ResetArguments = std::tuple<std::vector<std::vector<std::uint32_t>>,
                                  std::vector<std::shared_ptr<core::ResetOptions>>, std::uint64_t>;

// A step whose rows lie in a rollout's batch: where, which step, and what is recorded from where.
struct RolloutStep {
  const RolloutRows& rows;
  std::size_t step;
  std::vector<core::Rows> sources;
};

// Lists name all columns of the pool and of the chain, also where a column is not wanted. Rows are those of
// all envs, or in a rollout's batch those from its first env on.
struct Call {
  core::Op op;
  Addresses inputs = {}, out = {}, root = {};
  const core::Chain* chain = nullptr;
  std::optional<RolloutStep> into = std::nullopt;
  std::optional<ResetArguments> given = std::nullopt;
  std::span<const std::uint8_t> begins = {};  // as a job's
  std::uint32_t num_steps = 1;
  bool is_sent = false;  // its results are received later, and written to memory of the pool's

  // Throws ValueError for lists of another length. With the GIL.
  void Check(const core::Layout& layout, std::uint32_t num_envs) const {
    const std::size_t columns = chain ? chain->num_columns() : layout.outputs.size();
    const std::size_t actions = chain ? chain->num_inputs() : layout.actions.size();
    CheckCount("inputs", inputs, core::IsStep(op) ? actions : 0);
    if (!into && !is_sent) CheckCount("out", out, columns);
    if (into || (op == core::Op::kStepAndReset && !is_sent)) CheckCount("root", root, columns);
    if (into && into->rows.outputs.size() != columns) {
      throw py::value_error("expected an output for each column");
    }
    if (into && into->sources.size() != into->rows.recorded.size()) {
      throw py::value_error("expected a source for each column");
    }
    if (!begins.empty() && (begins.size() != num_envs || op != core::Op::kStep || chain || into)) {
      throw py::value_error(
          "begins: expected a flag for each env, of a step without transforms, into tensors");
    }
    if (!given) return;
    const auto& [entropy, options, note] = *given;
    if ((!entropy.empty() && entropy.size() != num_envs) ||
        (!options.empty() && options.size() != num_envs)) {
      throw py::value_error("expected words and options for each env");
    }
  }

  // Without the GIL. Takes what it can.
  void Fill(core::Job& job) {
    job.begins.assign(begins.begin(), begins.end());
    if (chain) chain->Extend(job);
    if (!inputs.empty()) job.actions.SetBases(inputs);
    if (!root.empty()) job.root.SetBases(root);
    job.num_steps = num_steps;
    if (given) {
      auto& [entropy, options, note] = *given;
      job.entropy.swap(entropy);
      job.reset_options.assign(options.begin(), options.end());
      job.reset_note = note;
    }
    if (into) {
      FillRolloutStep(job);
    } else if (!out.empty()) {
      job.out.SetBases(out);
    }
  }

 private:
  void FillRolloutStep(core::Job& job) {
    const auto& [rows, step, sources] = *into;
    out = root;
    for (std::size_t i = 0; i < out.size(); ++i) {
      if (std::byte* address = RolloutRows::At(rows.outputs[i], step)) out[i] = address;
    }
    job.out.SetBases(out);
    job.out.SetStrides(rows.output_strides);
    for (core::Batch* batch : {&job.actions, &job.out, &job.root}) batch->BeginAt(rows.first);
    job.recorded.resize(sources.size());
    for (std::size_t i = 0; i < sources.size(); ++i) {
      const auto& [from, from_stride] = sources[i];
      const std::size_t stride = std::get<1>(rows.recorded[i]);
      job.recorded[i] = {{from - rows.first * from_stride, from_stride},
                         {RolloutRows::At(rows.recorded[i], step) - rows.first * stride, stride},
                         rows.recorded_bytes[i]};
    }
    job.completes_root = true;
  }
};

// A job of a call, not yet submitted. `owner` keeps the memory behind it alive until no thread can touch it;
// `select` restricts it to some envs. Without the GIL.
template <class Select>
core::Job& Begin(core::Pool& pool, Call& call, const std::shared_ptr<void>& owner, const Select& select) {
  core::Job& job = pool.Begin(call.op);
  try {
    job.owner = owner;
    call.Fill(job);
    select(job);
  } catch (...) {
    pool.Drop(job);
    throw;
  }
  return job;
}

}  // namespace torchrl_pool::bindings

#endif  // TORCHRL_POOL_BINDINGS_CALL_H_
