#include "visit.h"

#include <sys/random.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <limits>
#include <utility>

#include "chain.h"
#include "stages/one_hot.h"

namespace torchrl_pool::core {
namespace {

constexpr double kUntoldReward = std::numeric_limits<double>::quiet_NaN();

}  // namespace

void OutputRows::Bind(const Layout& layout, const Batch& to, std::byte* scratch) {
  batch = &to;
  targets.Bind([&](std::size_t i) {
    const auto [column, bytes] = layout.targets[i];
    if (column != Target::kNoColumn && to.base[column]) return to.RowsFrom(column, 0);
    return Rows{bytes == Target::kNoScratch ? nullptr : scratch + bytes, 0};
  });
}

Visitor::Visitor(const Layout& layout, const Job& job, Scratch& scratch)
    : layout_(layout), job_(job), scratch_(scratch) {
  if (job.op == Op::kCreate) return;
  if (IsStep(job.op)) {
    scratch.actions.Bind([&](std::size_t i) {
      const ActionColumn& column = layout.actions[i];
      return column.one_hot ? Rows{scratch.bytes() + column.scratch, 0} : job.actions.RowsFrom(i, 0);
    });
  }
  scratch.out.Bind(layout, job.out, scratch.bytes());
}

Result Visitor::Visit(std::uint32_t env_index, EnvSlot& slot) {
  scratch_.error.message[0] = '\0';
  scratch_.unchanged = false;
  if (job_.op == Op::kSteps) return VisitInSteps(env_index, slot);
  if (IsStep(job_.op)) return VisitInStep(env_index, slot);
  if (job_.op == Op::kCreate) return Create(slot) ? Result::kOk : Result::kFailed;
  const bool seeds = !job_.entropy.empty() && !job_.entropy[env_index].empty();
  if (seeds && !Seed(slot, job_.entropy[env_index])) return Fail(job_.out, env_index);
  const ResetOptions* options = job_.reset_options.empty() ? nullptr : job_.reset_options[env_index].get();
  return Reset(slot, scratch_.out, env_index, options) ? Result::kOk : Fail(job_.out, env_index);
}

// The hot path: one function for the compiler.
[[gnu::flatten]] Result Visitor::VisitInStep(std::uint32_t row, EnvSlot& slot) {
  const bool may_reset = job_.op == Op::kStepAndReset;
  bool done = false;
  if (!Step(slot, row, &done)) {
    if (may_reset) Clear(job_.root, row);
    return Fail(job_.out, row);
  }
  return done && may_reset && !job_.chain ? BeginNext(row, slot) : Result::kOk;
}

Result Visitor::VisitInSteps(std::uint32_t env_index, EnvSlot& slot) {
  const std::uint32_t begin = env_index * job_.num_steps, end = begin + job_.num_steps;
  for (std::uint32_t row = begin; row < end; ++row) {
    if (job_.cancelled.load(std::memory_order_relaxed)) return Result::kSkipped;
    if (VisitInStep(row, slot) == Result::kOk) continue;
    while (++row < end) Clear(job_.out, row);
    return Result::kFailed;
  }
  return Result::kOk;
}

Result Visitor::VisitOnce(std::uint32_t row, EnvSlot& slot, std::size_t time, bool* goes_on) {
  scratch_.error.message[0] = '\0';
  scratch_.actions.MoveTo(row);
  scratch_.out.targets.MoveTo(row);
  bool done = false;
  if (!(time == 0 ? StepOnce(slot, row, &done) : RepeatOnce(slot, row, &done))) {
    if (job_.op == Op::kStepAndReset) Clear(job_.root, row);
    return Fail(job_.out, row);
  }
  *goes_on = !done && time + 1 < job_.chain->repeat().times;
  return Result::kOk;
}

Result Visitor::BeginNext(std::uint32_t env_index, EnvSlot& slot) {
  scratch_.error.message[0] = '\0';
  if (!std::exchange(root_is_bound_, true)) {
    scratch_.root.Bind(layout_, job_.root, scratch_.bytes());
  }
  return Reset(slot, scratch_.root, env_index) ? Result::kReset : Fail(job_.root, env_index);
}

// Seeded by the system at first, as NumPy's generators are; Seed replaces that.
bool Visitor::Create(EnvSlot& slot) {
  scratch_.step = EnvFault::kInCreation;
  if (slot.task->create(slot.config->handle(), &slot.env, &scratch_.error) != TRP_OK) return false;
  std::uint32_t words[4];
  if (getentropy(words, sizeof words) != 0) {
    std::snprintf(scratch_.error.message, sizeof scratch_.error.message,
                  "the system has no entropy for a seed");
    return false;
  }
  return slot.task->seed(slot.env, words, std::size(words), &scratch_.error) == TRP_OK;
}

bool Visitor::Seed(EnvSlot& slot, const std::vector<std::uint32_t>& words) {
  scratch_.step = EnvFault::kInReset;
  return slot.task->seed(slot.env, words.data(), words.size(), &scratch_.error) == TRP_OK;
}

bool Visitor::Reset(EnvSlot& slot, OutputRows& rows, std::uint32_t row, const ResetOptions* options) {
  scratch_.step = EnvFault::kInReset;
  rows.targets.MoveTo(row);
  void* const* targets = rows.targets.at();
  const int status = options ? slot.task->reset_with(slot.env, options->handle(), targets, &scratch_.error)
                             : slot.task->reset(slot.env, targets, &scratch_.error);
  if (status != TRP_OK) return false;
  slot.elapsed_steps = 0;
  WriteFlags(rows, row, false, false);
  return RunStages(slot, rows, row, kUntoldReward);
}

bool Visitor::Step(EnvSlot& slot, std::uint32_t row, bool* done) {
  scratch_.actions.MoveTo(row);
  DecodeActions(row);
  scratch_.out.targets.MoveTo(row);
  if (!StepOnce(slot, row, done)) return false;
  return !job_.chain || job_.chain->repeat().times == 1 || Repeat(slot, row, done);
}

// To where the cursors are.
bool Visitor::StepOnce(EnvSlot& slot, std::uint32_t row, bool* done) {
  scratch_.step = slot.elapsed_steps + 1;
  OutputRows& rows = scratch_.out;
  trp_step_result result{.terminated = 0, .truncated = 0, .reward = kUntoldReward};
  const int status =
      slot.task->step(slot.env, scratch_.actions.at(), rows.targets.at(), &result, &scratch_.error);
  scratch_.unchanged = status == TRP_UNCHANGED;
  if (status != TRP_OK) return false;
  ++slot.elapsed_steps;
  const bool timed_out = slot.max_episode_steps > 0 && slot.elapsed_steps >= slot.max_episode_steps;
  const bool terminated = result.terminated != 0, truncated = result.truncated != 0 || timed_out;
  *done = terminated || truncated;
  WriteFlags(rows, row, terminated, truncated);
  return RunStages(slot, rows, row, result.reward);
}

// The rest of a step whose first time is over.
bool Visitor::Repeat(EnvSlot& slot, std::uint32_t row, bool* done) {
  for (std::size_t i = 1; i < job_.chain->repeat().times && !*done; ++i) {
    if (!RepeatOnce(slot, row, done)) return false;
  }
  return true;
}

bool Visitor::RepeatOnce(EnvSlot& slot, std::uint32_t row, bool* done) {
  const ActionRepeat& repeat = job_.chain->repeat();
  std::byte* const reward = job_.out.Row(repeat.reward, row);
  const std::size_t bytes = repeat.size * (repeat.is_double ? sizeof(double) : sizeof(float));
  if (scratch_.rewards.size() < bytes) scratch_.rewards.resize(bytes);
  const auto add_up = [&]<class T>(T* earlier, T* now) {
    for (std::size_t i = 0; i < repeat.size; ++i) now[i] = earlier[i] + now[i];
  };
  std::byte* const earlier = scratch_.rewards.data();
  std::memcpy(earlier, reward, bytes);
  if (!StepOnce(slot, row, done)) {
    scratch_.unchanged = false;  // the times before count too
    return false;
  }
  if (repeat.is_double) {
    add_up(reinterpret_cast<double*>(earlier), reinterpret_cast<double*>(reward));
  } else {
    add_up(reinterpret_cast<float*>(earlier), reinterpret_cast<float*>(reward));
  }
  return true;
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
  const auto write = [&](std::size_t column, bool flag) {
    if (std::byte* to = rows.batch->Row(column, row)) *to = std::byte{flag};
  };
  write(layout_.terminated, terminated);
  write(layout_.truncated, truncated);
  write(layout_.done, terminated || truncated);
}

bool Visitor::RunStages(EnvSlot& slot, const OutputRows& rows, std::uint32_t row, double reward) {
  if (layout_.stages.empty()) return true;
  const StageRow stage_row{*rows.batch, row,       rows.targets.at(), slot.elapsed_steps,
                           reward,      slot.task, slot.env,          &scratch_.error};
  for (const Stage& stage : layout_.stages) {
    if (!stage.run(stage_row, slot.state + stage.state_offset)) return false;
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
