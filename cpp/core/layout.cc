#include "layout.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <utility>

#include "cache_line.h"
#include "dtype.h"
#include "env_slot.h"
#include "errors.h"
#include "transforms/copy.h"
#include "transforms/elementwise.h"
#include "transforms/init_tracker.h"
#include "transforms/one_hot.h"
#include "transforms/reward_sum.h"
#include "transforms/told_by_envs.h"

namespace torchrl_pool::core {
namespace {

constexpr char kStepCount[] = "step_count";
constexpr char kIsInit[] = "is_init";
constexpr char kExactReward[] = "exact_reward";
constexpr char kPixels[] = "pixels";

// "agents/reward" -> "agents/episode_reward"
std::string EpisodeKey(const std::string& reward) {
  const auto slash = reward.find_last_of('/');
  const auto leaf = slash == std::string::npos ? 0 : slash + 1;
  return reward.substr(0, leaf) + "episode_" + reward.substr(leaf);
}

Spec Flag(const char* name, const char* help, trp_role role) {
  return {name, help, role, TRP_BOOL, {1}, {}, {}, {}, false};
}

// Whatever is written must be aligned.
std::size_t Reserve(std::size_t* total, std::size_t bytes, std::size_t alignment) {
  const std::size_t offset = *total;
  *total += (bytes + alignment - 1) / alignment * alignment;
  return offset;
}

// Discrete entries, and the yes or no of a MultiBinary: what is none of the choices means nothing to an env,
// where a number beyond its bounds is one that the env may clip.
bool HoldsChoices(const Spec& spec) {
  const auto are_all = [](const std::vector<double>& bounds, double value) {
    return !bounds.empty() && std::all_of(bounds.begin(), bounds.end(), [=](double b) { return b == value; });
  };
  return !spec.categories.empty() || spec.dtype == TRP_BOOL ||
         (spec.dtype == TRP_INT8 && are_all(spec.low, 0) && are_all(spec.high, 1));
}

// One number for the whole env, as Gymnasium has it.
bool HasOneReward(const Config& config) {
  std::size_t rewards = 0, numbers = 0;
  for (const Spec& spec : config.specs()) {
    if (spec.role != TRP_REWARD) continue;
    ++rewards;
    numbers += spec.dtype == TRP_FLOAT32 ? spec.size() : 0;
  }
  return rewards == 1 && numbers == 1;
}

// Whether it is a reward of which sums have its dtype and lose little.
bool IsSummed(const Spec& spec) {
  return spec.role == TRP_REWARD && (spec.dtype == TRP_FLOAT32 || spec.dtype == TRP_FLOAT64);
}

[[noreturn]] void RefuseInfoKey(const Config& config, const std::string& key) {
  std::string known;
  for (const auto& native : NativeKeys(config)) known += (known.empty() ? "" : ", ") + native;
  for (const Spec& spec : config.specs()) {
    if (spec.role == TRP_INFO) known += ", " + spec.name;
  }
  throw StatusError(TRP_INVALID_ARGUMENT, std::string("task '") + config.task().id + "' has no info key '" +
                                              key + "'; it has: " + known);
}

}  // namespace

std::vector<std::string> NativeKeys(const Config& config) {
  std::vector<std::string> keys = {kStepCount, kIsInit};
  if (HasOneReward(config)) keys.push_back(kExactReward);
  for (const Spec& spec : config.specs()) {
    if (IsSummed(spec)) keys.push_back(EpisodeKey(spec.name));
  }
  return keys;
}

std::size_t Layout::AddColumn(Spec spec) {
  for (const OutputColumn& other : outputs) {
    if (other.spec.name != spec.name) continue;
    throw StatusError(TRP_INVALID_ARGUMENT, "'" + spec.name + "' is the name of two entries");
  }
  const std::size_t bytes = spec.row_bytes();
  outputs.push_back({std::move(spec), bytes});
  return outputs.size() - 1;
}

// It runs within the visits that write a row; where it writes a column, only if somebody wants that.
void Layout::AddStage(std::shared_ptr<const Stage> stage, std::size_t column, bool runs_at_resets) {
  at_steps.push_back({stage, column});
  if (runs_at_resets) at_resets.push_back({std::move(stage), column});
}

// A sum of rewards since the reset, which is kept whether somebody looks at it or not.
void Layout::AddSum(std::size_t output, const Spec& reward) {
  const std::string key = EpisodeKey(reward.name);
  const char* help = "sum of rewards since the last reset";
  const std::size_t column = AddColumn({key, help, TRP_INFO, reward.dtype, reward.shape, {}, {}, {}});
  const std::size_t bytes = reward.row_bytes(), size = reward.size();
  const ValueIndex earned = kFirstOutput + output, sum = StateValue(states.size());
  states.push_back({key, bytes, Reserve(&state_bytes, bytes, alignof(std::max_align_t))});
  if (reward.dtype == TRP_FLOAT64) {
    AddStage(std::make_shared<RewardSumStage<double>>(earned, sum, sum, size));
  } else {
    AddStage(std::make_shared<RewardSumStage<float>>(earned, sum, sum, size));
  }
  AddStage(std::make_shared<CopyStage>(sum, ColumnValue(column), CopyShape{.bytes = bytes}), column);
}

void Layout::AddAction(const Spec& spec, const LayoutOptions& options) {
  ActionColumn column{spec, options.one_hot && !spec.categories.empty(),
                      options.strict_actions || HoldsChoices(spec), spec.row_bytes()};
  column.scratch = Reserve(&scratch_bytes, column.row_bytes, kCacheLine);
  if (column.one_hot) {
    const auto width = std::accumulate(spec.categories.begin(), spec.categories.end(), std::int64_t{0});
    column.row_bytes = static_cast<std::size_t>(width) * sizeof(std::int64_t);
  }
  actions.push_back(std::move(column));
}

void Layout::AddOutput(const Spec& spec, const LayoutOptions& options, bool is_wanted) {
  if (spec.role == TRP_INFO && !is_wanted) {
    targets.push_back({Target::kNoColumn, Target::kNoScratch});
    return;
  }
  const std::size_t output = targets.size();
  const std::size_t scratch = Reserve(&scratch_bytes, spec.row_bytes(), kCacheLine);
  targets.push_back({Target::kNoColumn, scratch});
  const bool is_observation = spec.role == TRP_OBSERVATION;
  if (is_observation && options.from_pixels && options.pixels_only)
    return;  // the env writes it, but no tensor shows it

  const ValueIndex written = kFirstOutput + output;
  if (options.refuse_nan && IsFloat(spec.dtype)) {
    WithFloat(spec.dtype, [&](auto zero) {
      using Refuse = RefuseNanStage<decltype(zero)>;
      const bool runs_at_resets = spec.role != TRP_REWARD;  // which no reset writes
      AddStage(std::make_shared<Refuse>(written, spec.size(), kFault, spec.name), OwnStage::kAlways,
               runs_at_resets);
    });
  }
  Spec seen = spec;
  if (is_observation && options.one_hot && !spec.categories.empty()) {
    seen.shape = spec.OneHotShape();
    seen.categories = spec.Choices();
    seen.one_hot = true;
    const std::size_t column = AddColumn(std::move(seen));
    AddStage(
        std::make_shared<EncodeOneHotStage>(written, ColumnValue(column), kFault, spec.name, spec.categories),
        column);
    return;
  }
  if (is_observation && IsFloat(spec.dtype) && options.obs_dtype && *options.obs_dtype != spec.dtype) {
    seen.dtype = *options.obs_dtype;
    const std::size_t column = AddColumn(std::move(seen));
    const auto add = [&](auto from, auto to) {
      using Convert = Cast<decltype(from), decltype(to)>;
      const ValueIndex seen_as = ColumnValue(column);
      AddStage(std::make_shared<Elementwise<Convert>>(written, seen_as, spec.size(), Convert{}), column);
    };
    WithFloat(spec.dtype,
              [&](auto from) { return options.obs_dtype == TRP_FLOAT32 ? add(from, 0.0f) : add(from, 0.0); });
    return;
  }
  const std::size_t column = AddColumn(std::move(seen));
  targets.back().column = static_cast<int>(column);
  if (spec.IsFlagOfAgents("truncated")) agents_truncated.push_back(column);
  if (spec.IsFlagOfAgents("done")) agents_done.push_back(column);
}

Layout::Layout(const Config& config, const LayoutOptions& options) {
  if (options.obs_dtype && options.obs_dtype != TRP_FLOAT32 && options.obs_dtype != TRP_FLOAT64) {
    throw StatusError(TRP_INVALID_ARGUMENT, "obs_dtype must be float32 or float64");
  }
  auto unknown = options.info_keys;
  const auto wanted = [&](const std::string& key) {
    std::erase(unknown, key);
    return std::find(options.info_keys.begin(), options.info_keys.end(), key) != options.info_keys.end();
  };

  for (const Spec& spec : config.specs()) num_outputs_ += spec.role != TRP_ACTION;
  for (const Spec& spec : config.specs()) {
    if (spec.role == TRP_ACTION) {
      AddAction(spec, options);
    } else {
      AddOutput(spec, options, spec.role == TRP_INFO && wanted(spec.name));
    }
  }
  if (options.from_pixels) {
    const auto [height, width] = config.RenderSize();
    const std::size_t column = AddColumn(
        {kPixels, "a picture of the env", TRP_OBSERVATION, TRP_UINT8, {height, width, 3}, {}, {}, {}});
    AddStage(std::make_shared<PictureStage>(kSlot, ColumnValue(column), kFault), column);
  }
  terminated = AddColumn(Flag("terminated", "the episode ended by its own rules", TRP_DONE));
  truncated = AddColumn(Flag("truncated", "the episode was cut off", TRP_DONE));
  done = AddColumn(Flag("done", "terminated or truncated", TRP_DONE));
  if (wanted(kStepCount)) {
    const std::size_t column =
        AddColumn({kStepCount, "steps since the last reset", TRP_INFO, TRP_INT64, {1}, {0.0}, {}, {}});
    const CopyShape shape{.from_offset = offsetof(EnvSlot, elapsed_steps), .bytes = sizeof(std::int64_t)};
    AddStage(std::make_shared<CopyStage>(kSlot, ColumnValue(column), shape), column);
  }
  std::size_t output = 0;
  for (const Spec& spec : config.specs()) {
    if (spec.role == TRP_ACTION) continue;
    if (spec.role == TRP_REWARD && HasOneReward(config) && wanted(kExactReward)) {
      const char* help = "reward before it is rounded to float32";
      const Spec exact{kExactReward, help, TRP_INFO, TRP_FLOAT64, {1}, {}, {}, {}};
      const std::size_t column = AddColumn(exact);
      AddStage(std::make_shared<ExactRewardStage>(kTold, kFirstOutput + output, ColumnValue(column)), column);
    }
    if (IsSummed(spec) && wanted(EpisodeKey(spec.name))) AddSum(output, spec);
    ++output;
  }
  if (wanted(kIsInit)) {
    const std::size_t column = AddColumn(Flag(kIsInit, "whether an episode begins here", TRP_INFO));
    AddStage(std::make_shared<InitTrackerStage>(ColumnValue(column)), column);
  }
  if (!unknown.empty()) RefuseInfoKey(config, unknown.front());
  chain = Chain({.pool = outputs.size(), .pool_actions = actions.size()});
}

std::string Mismatch(const Config& a, const Config& b) {
  const auto names = std::string("'") + a.task().id + "' and '" + b.task().id + "' ";
  if (a.specs().size() != b.specs().size()) return names + "have different numbers of entries";
  for (std::size_t i = 0; i < a.specs().size(); ++i) {
    const Spec& x = a.specs()[i];
    const Spec& y = b.specs()[i];
    if (x.name != y.name || x.role != y.role) {
      return names + "have different entries: '" + x.name + "' and '" + y.name + "'";
    }
    if (x.shape != y.shape || x.dtype != y.dtype || x.categories != y.categories) {
      return names + "give '" + x.name + "' different shapes, dtypes or numbers of categories";
    }
  }
  return "";
}

}  // namespace torchrl_pool::core
