#include "visit.h"

#include <cstring>
#include <limits>
#include <random>
#include <utility>

#include "chain.h"
#include "stages/one_hot.h"

namespace torchrl_pool::core {
namespace {

constexpr double kUntoldReward = std::numeric_limits<double>::quiet_NaN();

}  // namespace

void ActionRows::Bind(const Layout& layout, const Batch& batch, std::byte* scratch) {
  std::byte* const* base = batch.base.data();
  const std::size_t* stride = batch.stride.data();
  const ActionColumn* columns = layout.actions.data();
  const auto given_rows = [=](std::size_t i) { return Rows{base[i], stride[i]}; };
  given.Bind(given_rows);
  decoded.Bind([=](std::size_t i) {
    return columns[i].one_hot ? Rows{scratch + columns[i].scratch, 0} : given_rows(i);
  });
}

void OutputRows::Bind(const Layout& layout, const Batch& batch, std::byte* scratch) {
  std::byte* const* base = batch.base.data();
  const std::size_t* stride = batch.stride.data();
  const Target* to = layout.targets.data();
  columns.Bind([=](std::size_t i) { return Rows{base[i], stride[i]}; });
  targets.Bind([=](std::size_t i) {
    const auto [column, bytes] = to[i];
    if (column != Target::kNoColumn && base[column]) return Rows{base[column], stride[column]};
    return Rows{bytes == Target::kNoScratch ? nullptr : scratch + bytes, 0};
  });
}

Visitor::Visitor(const Layout& layout, const Ticket& ticket, Scratch& scratch)
    : layout_(layout), ticket_(ticket), scratch_(scratch) {
  if (ticket.op == Op::kCreate) return;
  if (ticket.op != Op::kReset) scratch.actions.Bind(layout, ticket.actions, scratch.bytes());
  scratch.out.Bind(layout, ticket.out, scratch.bytes());
}

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
      return Reset(slot, scratch_.out, env_index, options) ? Result::kOk : Fail(ticket_.out, env_index);
    }
    default:
      return VisitInStep(env_index, slot);
  }
}

// The hot path: one function for the compiler.
[[gnu::flatten]] Result Visitor::VisitInStep(std::uint32_t row, EnvSlot& slot) {
  const bool may_reset = ticket_.op == Op::kStepAndReset;
  bool done = false;
  if (!Step(slot, row, &done)) {
    if (may_reset) Clear(ticket_.root, row);
    return Fail(ticket_.out, row);
  }
  if (!done || !may_reset) return Result::kOk;
  if (!std::exchange(root_is_bound_, true)) {
    scratch_.root.Bind(layout_, ticket_.root, scratch_.bytes());
  }
  return Reset(slot, scratch_.root, row) ? Result::kReset : Fail(ticket_.root, row);
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

bool Visitor::Reset(EnvSlot& slot, OutputRows& rows, std::uint32_t row, const ResetOptions* options) {
  scratch_.step = EnvFault::kInReset;
  rows.MoveTo(row);
  void* const* targets = rows.targets.at();
  const int status = options ? slot.task->reset_with(slot.env, options->handle(), targets, &scratch_.error)
                             : slot.task->reset(slot.env, targets, &scratch_.error);
  if (status != TRP_OK) return false;
  slot.elapsed_steps = 0;
  WriteFlags(rows, false, false);
  if (!RunStages(slot, rows, kUntoldReward)) return false;
  if (ticket_.chain) {
    const Batch& batch = &rows == &scratch_.out ? ticket_.out : ticket_.root;
    ticket_.chain->Run(ticket_, batch, 0, Chain::When::kReset, row);
  }
  return true;
}

bool Visitor::Step(EnvSlot& slot, std::uint32_t row, bool* done) {
  scratch_.actions.given.MoveTo(row);
  scratch_.actions.decoded.MoveTo(row);
  DecodeActions();
  scratch_.out.MoveTo(row);
  if (!StepOnce(slot, done)) return false;
  if (ticket_.chain) {
    if (ticket_.chain->repeat().times > 1 && !Repeat(slot, row, done)) return false;
    ticket_.chain->Run(ticket_, ticket_.out, 0, Chain::When::kStep, row);
    *done = *ticket_.out.Row(layout_.done, row) != std::byte{0};  // a chain may end episodes
  }
  return true;
}

// To where the cursors are.
bool Visitor::StepOnce(EnvSlot& slot, bool* done) {
  scratch_.step = slot.elapsed_steps + 1;
  OutputRows& rows = scratch_.out;
  trp_step_result result{.terminated = 0, .truncated = 0, .reward = kUntoldReward};
  const int status =
      slot.task->step(slot.env, scratch_.actions.decoded.at(), rows.targets.at(), &result, &scratch_.error);
  if (status != TRP_OK) return false;
  ++slot.elapsed_steps;
  const bool timed_out = slot.max_episode_steps > 0 && slot.elapsed_steps >= slot.max_episode_steps;
  const bool terminated = result.terminated != 0, truncated = result.truncated != 0 || timed_out;
  *done = terminated || truncated;
  WriteFlags(rows, terminated, truncated);
  return RunStages(slot, rows, result.reward);
}

// The rest of a step whose first time is over.
bool Visitor::Repeat(EnvSlot& slot, std::uint32_t row, bool* done) {
  const ActionRepeat& repeat = ticket_.chain->repeat();
  std::byte* const reward = ticket_.out.Row(repeat.reward, row);
  const std::size_t bytes = repeat.size * (repeat.is_double ? sizeof(double) : sizeof(float));
  if (scratch_.rewards.size() < bytes) scratch_.rewards.resize(bytes);
  const auto add_up = [&]<class T>(T* earlier, T* now) {
    for (std::size_t i = 0; i < repeat.size; ++i) now[i] = earlier[i] + now[i];
  };
  for (std::size_t i = 1; i < repeat.times && !*done; ++i) {
    std::byte* const earlier = scratch_.rewards.data();
    std::memcpy(earlier, reward, bytes);
    if (!StepOnce(slot, done)) return false;
    if (repeat.is_double) {
      add_up(reinterpret_cast<double*>(earlier), reinterpret_cast<double*>(reward));
    } else {
      add_up(reinterpret_cast<float*>(earlier), reinterpret_cast<float*>(reward));
    }
  }
  return true;
}

void Visitor::DecodeActions() {
  for (std::size_t i = 0; i < layout_.actions.size(); ++i) {
    const ActionColumn& column = layout_.actions[i];
    if (!column.one_hot) continue;
    DecodeOneHot(column.spec.categories,
                 reinterpret_cast<const std::int64_t*>(scratch_.actions.given.at()[i]),
                 reinterpret_cast<std::int64_t*>(scratch_.bytes() + column.scratch));
  }
}

void Visitor::WriteFlags(const OutputRows& rows, bool terminated, bool truncated) {
  std::byte* const* columns = rows.columns.at();
  if (std::byte* to = columns[layout_.terminated]) *to = std::byte{terminated};
  if (std::byte* to = columns[layout_.truncated]) *to = std::byte{truncated};
  if (std::byte* to = columns[layout_.done]) *to = std::byte{terminated || truncated};
}

bool Visitor::RunStages(EnvSlot& slot, const OutputRows& rows, double reward) {
  if (layout_.stages.empty()) return true;
  const StageRow row{rows.columns.at(), rows.targets.at(), slot.state,     slot.elapsed_steps, reward,
                     slot.task,         slot.env,          &scratch_.error};
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
