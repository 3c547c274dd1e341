#include "visit.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <new>
#include <random>

namespace torchrl_pool::core {
namespace {

struct Flags {
  bool terminated, truncated, is_init;
};

class Visitor {
 public:
  Visitor(const Layout& layout, std::uint32_t row, EnvSlot& slot, Scratch& scratch)
      : layout_(layout), row_(row), slot_(slot), scratch_(scratch) {}

  // With a seed from the system, as everywhere in NumPy: whoever wants another one seeds later.
  bool Create() {
    scratch_.step = EnvFault::kInCreation;
    const Config& config = *slot_.config;
    if (task().create(config.handle(), &slot_.env, &scratch_.error) != TRP_OK) return false;
    std::random_device entropy;
    return Seed({entropy(), entropy(), entropy(), entropy()});
  }

  bool Seed(const std::vector<std::uint32_t>& words) {
    if (scratch_.step != EnvFault::kInCreation) scratch_.step = EnvFault::kInReset;
    return task().seed(slot_.env, words.data(), words.size(), &scratch_.error) == TRP_OK;
  }

  bool Reset(const Batch& batch, const ResetOptions* options = nullptr) {
    scratch_.step = EnvFault::kInReset;
    BindOutputs(batch);
    void* const* outputs = scratch_.outputs.data();
    const int status = options ? task().reset_with(slot_.env, options->handle(), outputs, &scratch_.error)
                               : task().reset(slot_.env, outputs, &scratch_.error);
    if (status != TRP_OK) return false;
    if (!WroteNumbers(false)) return false;
    slot_.elapsed_steps = 0;
    std::fill(slot_.episode_rewards.begin(), slot_.episode_rewards.end(), 0.0f);
    return Finish(batch, {.terminated = false, .truncated = false, .is_init = true});
  }

  bool Step(const Batch& actions, const Batch& batch, bool* done) {
    scratch_.step = slot_.elapsed_steps + 1;
    BindActions(actions);
    BindOutputs(batch);
    trp_step_result result{};
    const int status =
        task().step(slot_.env, scratch_.actions.data(), scratch_.outputs.data(), &result, &scratch_.error);
    if (status != TRP_OK || !WroteNumbers(true)) return false;
    ++slot_.elapsed_steps;
    const bool timed_out = slot_.max_episode_steps > 0 && slot_.elapsed_steps >= slot_.max_episode_steps;
    const Flags flags{.terminated = result.terminated != 0,
                      .truncated = result.truncated != 0 || timed_out,
                      .is_init = false};
    AddRewards();
    *done = flags.terminated || flags.truncated;
    return Finish(batch, flags);
  }

  // So that nobody ever reads memory that a failed env left unwritten.
  void Clear(const Batch& batch) {
    for (std::size_t i = 0; i < layout_.outputs.size(); ++i) {
      if (std::byte* to = batch.Row(i, row_)) std::memset(to, 0, layout_.outputs[i].row_bytes);
    }
  }

 private:
  const trp_task& task() const { return slot_.config->task(); }

  void BindActions(const Batch& batch) {
    for (std::size_t i = 0; i < layout_.actions.size(); ++i) {
      const ActionColumn& column = layout_.actions[i];
      const std::byte* from = batch.Row(i, row_);
      if (column.one_hot) {
        auto* categories = reinterpret_cast<std::int64_t*>(scratch_.bytes() + column.scratch_offset);
        const auto* hot = reinterpret_cast<const std::int64_t*>(from);
        for (const std::int64_t count : column.spec.categories) {
          std::int64_t category = 0;
          while (category + 1 < count && hot[category] == 0) ++category;
          *categories++ = category;
          hot += count;
        }
        from = scratch_.bytes() + column.scratch_offset;
      }
      scratch_.actions[i] = from;
    }
  }

  // Where the env writes each of its outputs: straight into the batch wherever that is possible.
  void BindOutputs(const Batch& batch) {
    for (std::size_t i = 0; i < layout_.task_columns.size(); ++i) {
      const int column = layout_.task_columns[i];
      std::byte* to = column < 0 ? nullptr : batch.Row(static_cast<std::size_t>(column), row_);
      if (column != Layout::kUnwanted && !to) to = scratch_.bytes() + layout_.task_scratch[i];
      scratch_.outputs[i] = to;
    }
    for (const ConvertedOutput& output : layout_.converted) {
      scratch_.outputs[output.task_output] = scratch_.bytes() + output.scratch_offset;
    }
    for (const OneHotOutput& output : layout_.one_hot) {
      scratch_.outputs[output.task_output] = scratch_.bytes() + output.scratch_offset;
    }
  }

  // False where the env wrote NaN and must not.
  bool WroteNumbers(bool stepped) {
    for (const NumberOutput& output : layout_.numbers) {
      if (output.is_reward && !stepped) continue;
      const void* values = scratch_.outputs[output.task_output];
      const bool has_nan = output.is_double ? HasNan(static_cast<const double*>(values), output.size)
                                            : HasNan(static_cast<const float*>(values), output.size);
      if (!has_nan) continue;
      std::snprintf(scratch_.error.message, sizeof scratch_.error.message, "the env wrote nan to '%s'",
                    output.name.c_str());
      return false;
    }
    return true;
  }

  template <class T>
  static bool HasNan(const T* values, std::size_t size) {
    return std::any_of(values, values + size, [](T value) { return value != value; });
  }

  void AddRewards() {
    for (const EpisodeReward& sum : layout_.episode_rewards) {
      const auto* reward = static_cast<const float*>(scratch_.outputs[sum.task_output]);
      float* to = slot_.episode_rewards.data() + sum.offset;
      for (std::size_t i = 0; i < sum.size; ++i) to[i] += reward[i];
    }
  }

  // Converts what the env left in scratch and writes the executor's own columns.
  bool Finish(const Batch& batch, const Flags& flags) {
    for (const ConvertedOutput& output : layout_.converted) {
      if (std::byte* to = batch.Row(output.column, row_)) {
        output.convert(scratch_.bytes() + output.scratch_offset, to, output.size);
      }
    }
    for (const OneHotOutput& output : layout_.one_hot) {
      if (!WriteOneHot(batch, output)) return false;
    }
    const auto write = [&](std::size_t column, const auto& value) {
      if (std::byte* to = batch.Row(column, row_)) std::memcpy(to, &value, sizeof value);
    };
    write(layout_.terminated, flags.terminated);
    write(layout_.truncated, flags.truncated);
    write(layout_.done, flags.terminated || flags.truncated);
    if (layout_.step_count >= 0) write(static_cast<std::size_t>(layout_.step_count), slot_.elapsed_steps);
    if (layout_.is_init >= 0) write(static_cast<std::size_t>(layout_.is_init), flags.is_init);
    for (const EpisodeReward& sum : layout_.episode_rewards) {
      if (std::byte* to = batch.Row(sum.column, row_)) {
        std::copy_n(slot_.episode_rewards.data() + sum.offset, sum.size, reinterpret_cast<float*>(to));
      }
    }
    std::byte* pixels =
        layout_.pixels < 0 ? nullptr : batch.Row(static_cast<std::size_t>(layout_.pixels), row_);
    return !pixels ||
           task().render(slot_.env, reinterpret_cast<std::uint8_t*>(pixels), &scratch_.error) == TRP_OK;
  }

  // False where the env wrote a category that does not exist.
  bool WriteOneHot(const Batch& batch, const OneHotOutput& output) {
    auto* to = reinterpret_cast<std::int64_t*>(batch.Row(output.column, row_));
    if (!to) return true;
    const OutputColumn& column = layout_.outputs[output.column];
    std::memset(to, 0, column.row_bytes);
    const auto* category = reinterpret_cast<const std::int64_t*>(scratch_.bytes() + output.scratch_offset);
    for (const std::int64_t count : output.categories) {
      if (*category < 0 || *category >= count) {
        std::snprintf(scratch_.error.message, sizeof scratch_.error.message,
                      "the env wrote %lld to '%s', expected one of 0 to %lld",
                      static_cast<long long>(*category), column.spec.name.c_str(),
                      static_cast<long long>(count - 1));
        return false;
      }
      to[*category++] = 1;
      to += count;
    }
    return true;
  }

  const Layout& layout_;
  const std::uint32_t row_;
  EnvSlot& slot_;
  Scratch& scratch_;
};

}  // namespace

Scratch::Scratch(const Layout& layout)
    : actions(layout.actions.size()),
      outputs(layout.task_columns.size()),
      bytes_(new (std::align_val_t{kCacheLine}) std::byte[layout.scratch_bytes + 1]{}) {}

Result Visit(const Layout& layout, const Ticket& ticket, std::uint32_t env_index, EnvSlot& slot,
             Scratch& scratch) {
  Visitor visitor(layout, env_index, slot, scratch);
  const auto fail = [&](const Batch& batch) {
    visitor.Clear(batch);
    return Result::kFailed;
  };
  switch (ticket.op) {
    case Op::kCreate:
      return visitor.Create() ? Result::kOk : Result::kFailed;
    case Op::kReset: {
      const bool seeds = !ticket.entropy.empty() && !ticket.entropy[env_index].empty();
      if (seeds && !visitor.Seed(ticket.entropy[env_index])) return fail(ticket.out);
      const ResetOptions* options =
          ticket.reset_options.empty() ? nullptr : ticket.reset_options[env_index].get();
      return visitor.Reset(ticket.out, options) ? Result::kOk : fail(ticket.out);
    }
    case Op::kStep:
    case Op::kStepAndReset: {
      bool done = false;
      if (!visitor.Step(ticket.actions, ticket.out, &done)) {
        if (ticket.op == Op::kStepAndReset) visitor.Clear(ticket.root);
        return fail(ticket.out);
      }
      if (!done || ticket.op == Op::kStep) return Result::kOk;
      return visitor.Reset(ticket.root) ? Result::kReset : fail(ticket.root);
    }
  }
  return Result::kFailed;
}

}  // namespace torchrl_pool::core
