#include "visit.h"

#include <cstring>
#include <random>

#include "chain.h"
#include "stages/one_hot.h"

namespace torchrl_pool::core {

Scratch::Scratch(const Layout& layout)
    : actions(layout.actions.size()),
      outputs(layout.targets.size()),
      columns(layout.outputs.size()),
      bytes_(layout.scratch_bytes) {}

Result Visitor::Visit(std::uint32_t env_index, EnvSlot& slot) {
  scratch_.error.message[0] = '\0';
  switch (ticket_.op) {
    case Op::kCreate:
      return Create(slot) ? Result::kOk : Result::kFailed;
    case Op::kReset: {
      const bool seeds = !ticket_.entropy.empty() && !ticket_.entropy[env_index].empty();
      if (seeds && !Seed(slot, ticket_.entropy[env_index])) return Fail(ticket_.out, env_index);
      const ResetOptions* options =
          ticket_.reset_options.empty() ? nullptr : ticket_.reset_options[env_index].get();
      return Reset(slot, ticket_.out, env_index, options) ? Result::kOk : Fail(ticket_.out, env_index);
    }
    default:
      return VisitInStep(env_index, slot);
  }
}

Result Visitor::VisitInStep(std::uint32_t row, EnvSlot& slot) {
  const bool may_reset = ticket_.op == Op::kStepAndReset;
  bool done = false;
  if (!Step(slot, row, &done)) {
    if (may_reset) Clear(ticket_.root, row);
    return Fail(ticket_.out, row);
  }
  if (!done || !may_reset) return Result::kOk;
  return Reset(slot, ticket_.root, row) ? Result::kReset : Fail(ticket_.root, row);
}

// With a seed from the system, as everywhere in NumPy: whoever wants another one seeds later.
bool Visitor::Create(EnvSlot& slot) {
  scratch_.step = EnvFault::kInCreation;
  if (slot.task->create(slot.config->handle(), &slot.env, &scratch_.error) != TRP_OK) return false;
  std::random_device entropy;
  const std::uint32_t words[] = {entropy(), entropy(), entropy(), entropy()};
  return slot.task->seed(slot.env, words, std::size(words), &scratch_.error) == TRP_OK;
}

bool Visitor::Seed(EnvSlot& slot, const std::vector<std::uint32_t>& words) {
  scratch_.step = EnvFault::kInReset;
  return slot.task->seed(slot.env, words.data(), words.size(), &scratch_.error) == TRP_OK;
}

bool Visitor::Reset(EnvSlot& slot, const Batch& batch, std::uint32_t row, const ResetOptions* options) {
  scratch_.step = EnvFault::kInReset;
  BindOutputs(batch, row);
  void* const* outputs = scratch_.outputs.data();
  const int status = options ? slot.task->reset_with(slot.env, options->handle(), outputs, &scratch_.error)
                             : slot.task->reset(slot.env, outputs, &scratch_.error);
  if (status != TRP_OK) return false;
  slot.elapsed_steps = 0;
  WriteFlag(layout_.terminated, false);
  WriteFlag(layout_.truncated, false);
  WriteFlag(layout_.done, false);
  if (!RunStages(slot)) return false;
  if (ticket_.chain) ticket_.chain->Run(ticket_, batch, 0, Chain::When::kReset, row);
  return true;
}

bool Visitor::Step(EnvSlot& slot, std::uint32_t row, bool* done) {
  scratch_.step = slot.elapsed_steps + 1;
  BindActions(row);
  BindOutputs(ticket_.out, row);
  trp_step_result result{};
  const int status =
      slot.task->step(slot.env, scratch_.actions.data(), scratch_.outputs.data(), &result, &scratch_.error);
  if (status != TRP_OK) return false;
  ++slot.elapsed_steps;
  const bool timed_out = slot.max_episode_steps > 0 && slot.elapsed_steps >= slot.max_episode_steps;
  const bool terminated = result.terminated != 0, truncated = result.truncated != 0 || timed_out;
  *done = terminated || truncated;
  WriteFlag(layout_.terminated, terminated);
  WriteFlag(layout_.truncated, truncated);
  WriteFlag(layout_.done, *done);
  if (!RunStages(slot)) return false;
  if (ticket_.chain) {
    ticket_.chain->Run(ticket_, ticket_.out, 0, Chain::When::kStep, row);
    *done = *ticket_.out.Row(layout_.done, row) != std::byte{0};  // a chain may end episodes
  }
  return true;
}

void Visitor::BindActions(std::uint32_t row) {
  for (std::size_t i = 0; i < layout_.actions.size(); ++i) {
    const ActionColumn& column = layout_.actions[i];
    const std::byte* from = ticket_.actions.Row(i, row);
    if (column.one_hot) {
      std::byte* numbers = scratch_.bytes() + column.scratch;
      DecodeOneHot(column.spec.categories, reinterpret_cast<const std::int64_t*>(from),
                   reinterpret_cast<std::int64_t*>(numbers));
      from = numbers;
    }
    scratch_.actions[i] = from;
  }
}

// Where the env writes each of its outputs: straight into the batch wherever that is possible.
void Visitor::BindOutputs(const Batch& batch, std::uint32_t row) {
  std::byte** const columns = scratch_.columns.data();
  const std::size_t num_columns = scratch_.columns.size();
  std::byte* const* base = batch.base.data();
  const std::size_t* stride = batch.stride.data();
  for (std::size_t i = 0; i < num_columns; ++i) columns[i] = base[i] ? base[i] + row * stride[i] : nullptr;
  void** output = scratch_.outputs.data();
  for (const Target& target : layout_.targets) {
    std::byte* to = target.column == Target::kNoColumn ? nullptr : columns[target.column];
    if (!to && target.scratch != Target::kNoScratch) to = scratch_.bytes() + target.scratch;
    *output++ = to;
  }
}

void Visitor::WriteFlag(std::size_t column, bool value) {
  if (std::byte* to = scratch_.columns[column]) *to = std::byte{value};
}

bool Visitor::RunStages(EnvSlot& slot) {
  if (layout_.stages.empty()) return true;
  const StageRow row{
      scratch_.columns.data(), scratch_.outputs.data(), slot.state, slot.elapsed_steps, slot.task, slot.env,
      &scratch_.error};
  for (const auto& stage : layout_.stages) {
    if (!stage->Run(row)) return false;
  }
  return true;
}

Result Visitor::Fail(const Batch& batch, std::uint32_t row) {
  Clear(batch, row);
  return Result::kFailed;
}

// So that nobody ever reads memory that a failed env left unwritten.
void Visitor::Clear(const Batch& batch, std::uint32_t row) {
  for (std::size_t i = 0; i < layout_.outputs.size(); ++i) {
    if (std::byte* to = batch.Row(i, row)) std::memset(to, 0, layout_.outputs[i].row_bytes);
  }
  if (ticket_.chain) ticket_.chain->Clear(batch, row);
}

}  // namespace torchrl_pool::core
