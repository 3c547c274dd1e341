#include "visit.h"

#include <sys/random.h>

#include <cstdio>
#include <cstring>
#include <limits>
#include <utility>

#include "transforms/one_hot.h"

namespace torchrl_pool::core {

Visitor::Visitor(const Layout& layout, const Job& job, Scratch& scratch)
    : layout_(layout), job_(job), scratch_(scratch) {
  if (job.op == Op::kCreate) return;
  if (IsStep(job.op)) {
    scratch.actions.Bind([&](std::size_t i) {
      const ActionColumn& column = layout.actions[i];
      return column.one_hot ? Rows{scratch.bytes() + column.scratch, 0} : job.actions.RowsFrom(i, 0);
    });
  }
  Bind(scratch.out, job.out);
}

void Visitor::Bind(OutputRows& rows, const Batch& to) {
  rows.batch = &to;
  rows.targets.Bind([&](std::size_t i) {
    const auto [column, bytes] = layout_.targets[i];
    if (column != Target::kNoColumn && to.base[column]) return to.RowsFrom(column, 0);
    return Rows{bytes == Target::kNoScratch ? nullptr : scratch_.bytes() + bytes, 0};
  });
  const auto flag = [&](std::size_t column) {
    return to.base[column] ? to.RowsFrom(column, 0) : Rows{&rows.unread, 0};
  };
  rows.flags = {flag(layout_.terminated), flag(layout_.truncated), flag(layout_.done)};
  if (layout_.at_steps.empty()) return;
  rows.values[Layout::kTold] = {reinterpret_cast<std::byte*>(&scratch_.told), 0};
  rows.values[Layout::kFault] = {reinterpret_cast<std::byte*>(&scratch_.fault), 0};
  for (std::size_t i = 0; i < rows.targets.size(); ++i) {
    rows.values[Layout::kFirstOutput + i] = rows.targets.rows(i);
  }
  for (std::size_t i = 0; i < layout_.outputs.size(); ++i) {
    rows.values[layout_.ColumnValue(i)] = to.RowsFrom(i, 0);
  }
}

Result Visitor::Visit(std::uint32_t env_index, EnvSlot& slot) {
  scratch_.error.message[0] = '\0';
  scratch_.unchanged = false;
  switch (job_.OpOf(env_index)) {
    case Op::kCreate:
      return Create(slot);
    case Op::kReset:
      return SeedAndReset(env_index, slot);
    case Op::kSteps:
      return SeveralSteps(env_index, slot);
    case Op::kSave:  // Executor::VisitState does these
    case Op::kLoad:
    case Op::kRender:
    case Op::kStep:
    case Op::kStepAndReset:
      break;
  }
  return Step(env_index, slot);
}

// Seeded by the system at first, as NumPy's generators are; SeedAndReset replaces that.
Result Visitor::Create(EnvSlot& slot) {
  scratch_.step = EnvFault::kInCreation;
  if (slot.task->create(slot.config->handle(), &slot.env, &scratch_.error) != TRP_OK) return Result::kFailed;
  std::uint32_t words[4];
  if (getentropy(words, sizeof words) != 0) {
    std::snprintf(scratch_.error.message, sizeof scratch_.error.message,
                  "the system has no entropy for a seed");
    return Result::kFailed;
  }
  const int status = slot.task->seed(slot.env, words, std::size(words), &scratch_.error);
  return status == TRP_OK ? Result::kOk : Result::kFailed;
}

Result Visitor::SeedAndReset(std::uint32_t env_index, EnvSlot& slot) {
  scratch_.step = EnvFault::kInReset;
  if (!job_.entropy.empty() && !job_.entropy[env_index].empty()) {
    const std::vector<std::uint32_t>& words = job_.entropy[env_index];
    const int status = slot.task->seed(slot.env, words.data(), words.size(), &scratch_.error);
    if (status != TRP_OK) return Fail(job_.out, env_index);
  }
  const ResetOptions* options = job_.reset_options.empty() ? nullptr : job_.reset_options[env_index].get();
  return Reset(slot, scratch_.out, env_index, options) ? Result::kOk : Fail(job_.out, env_index);
}

Result Visitor::BeginNext(std::uint32_t env_index, EnvSlot& slot) {
  scratch_.error.message[0] = '\0';
  if (!std::exchange(root_is_bound_, true)) Bind(scratch_.root, job_.root);
  return Reset(slot, scratch_.root, env_index) ? Result::kReset : Fail(job_.root, env_index);
}

bool Visitor::Reset(EnvSlot& slot, OutputRows& rows, std::uint32_t row, const ResetOptions* options) {
  scratch_.step = EnvFault::kInReset;
  rows.targets.MoveTo(row);
  void* const* targets = rows.targets.at();
  const int status = options ? slot.task->reset_with(slot.env, options->handle(), targets, &scratch_.error)
                             : slot.task->reset(slot.env, targets, &scratch_.error);
  const bool both = status == TRP_TERMINATED_AND_TRUNCATED;
  const bool terminated = both || status == TRP_TERMINATED, truncated = both || status == TRP_TRUNCATED;
  if (status != TRP_OK && !terminated && !truncated) return false;
  slot.elapsed_steps = 0;
  WriteFlags(rows, row, terminated, truncated);
  return RunStages(slot, rows, row, Stage::When::kReset);
}

Result Visitor::SeveralSteps(std::uint32_t env_index, EnvSlot& slot) {
  const std::uint32_t begin = env_index * job_.num_steps, end = begin + job_.num_steps;
  for (std::uint32_t row = begin; row < end; ++row) {
    if (job_.cancelled.load(std::memory_order_relaxed)) return Result::kSkipped;
    if (Step(row, slot) == Result::kOk) continue;
    while (++row < end) Clear(job_.out, row);
    return Result::kFailed;
  }
  return Result::kOk;
}

// The hot path: one function for the compiler.
[[gnu::flatten]] Result Visitor::Step(std::uint32_t row, EnvSlot& slot) {
  if (StepTo(slot, row)) return Result::kOk;
  if (job_.op == Op::kStepAndReset) Clear(job_.root, row);
  return Fail(job_.out, row);
}

bool Visitor::StepTo(EnvSlot& slot, std::uint32_t row) {
  scratch_.step = slot.elapsed_steps + 1;
  OutputRows& rows = scratch_.out;
  scratch_.actions.MoveTo(row);
  DecodeActions(row);
  rows.targets.MoveTo(row);
  trp_step_result result{.terminated = 0, .truncated = 0, .reward = std::numeric_limits<double>::quiet_NaN()};
  const int status =
      slot.task->step(slot.env, scratch_.actions.at(), rows.targets.at(), &result, &scratch_.error);
  scratch_.unchanged = status == TRP_UNCHANGED;
  if (status != TRP_OK) return false;
  ++slot.elapsed_steps;
  const bool timed_out = slot.max_episode_steps > 0 && slot.elapsed_steps >= slot.max_episode_steps;
  const bool terminated = result.terminated != 0, truncated = result.truncated != 0 || timed_out;
  WriteFlags(rows, row, terminated, truncated);
  if (slot.max_episode_steps > 0 && (terminated || truncated)) EndAgents(row, truncated);
  scratch_.told = result.reward;
  return RunStages(slot, rows, row, Stage::When::kStep);
}

void Visitor::DecodeActions(std::uint32_t row) {
  for (std::size_t i = 0; i < layout_.actions.size(); ++i) {
    const ActionColumn& column = layout_.actions[i];
    if (!column.one_hot) continue;
    DecodeOneHot(column.spec.categories, reinterpret_cast<const std::int64_t*>(job_.actions.Row(i, row)),
                 reinterpret_cast<std::int64_t*>(scratch_.bytes() + column.scratch));
  }
}

void Visitor::WriteFlags(const OutputRows& rows, std::uint32_t row, bool terminated, bool truncated) {
  const auto& [to_terminated, to_truncated, to_done] = rows.flags;
  *to_terminated.From(row).base = std::byte{terminated};
  *to_truncated.From(row).base = std::byte{truncated};
  *to_done.From(row).base = std::byte{terminated || truncated};
}

// Where the env has a time limit its end is that of all agents, as with TorchRL's StepCounter(max_steps).
void Visitor::EndAgents(std::uint32_t row, bool truncated) {
  const auto set = [&](const std::vector<std::size_t>& columns) {
    for (const std::size_t column : columns) {
      if (std::byte* to = job_.out.Row(column, row)) std::memset(to, 1, job_.out.row_bytes[column]);
    }
  };
  set(layout_.agents_done);
  if (truncated) set(layout_.agents_truncated);
}

bool Visitor::RunStages(EnvSlot& slot, OutputRows& rows, std::uint32_t row, Stage::When when) {
  const auto& stages = when == Stage::When::kStep ? layout_.at_steps : layout_.at_resets;
  if (stages.empty()) return true;
  rows.values[Layout::kSlot] = {reinterpret_cast<std::byte*>(&slot), 0};
  for (std::size_t i = 0; i < layout_.states.size(); ++i) {
    rows.values[layout_.StateValue(i)] = {slot.state + layout_.states[i].offset, 0};
  }
  scratch_.fault.is_found = false;
  for (const OwnStage& own : stages) {
    if (own.column != OwnStage::kAlways && !rows.batch->base[own.column]) continue;
    own.stage->Run({rows.values.data(), nullptr, row, 1}, when);
    if (scratch_.fault.is_found) return false;
  }
  return true;
}

Result Visitor::Fail(const Batch& batch, std::uint32_t row) {
  Clear(batch, row);
  return Result::kFailed;
}

// So that no uninitialised memory of a failed env is ever read.
void Visitor::Clear(const Batch& batch, std::uint32_t row) {
  for (std::size_t i = 0; i < batch.base.size(); ++i) {
    if (std::byte* to = batch.Row(i, row)) std::memset(to, 0, batch.row_bytes[i]);
  }
}

}  // namespace torchrl_pool::core
