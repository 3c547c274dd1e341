#include "layout.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "cache_line.h"
#include "dtype.h"
#include "errors.h"
#include "stages/episode.h"
#include "stages/observation.h"
#include "stages/one_hot.h"

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

void Layout::AddStage(Stage stage) {
  stage.state_offset = Reserve(&state_bytes, stage.state_bytes, alignof(std::max_align_t));
  stages.push_back(std::move(stage));
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

  if (options.refuse_nan && IsFloat(spec.dtype)) {
    AddStage(WithFloat(spec.dtype, [&](auto zero) {
      return RefuseNan<decltype(zero)>(output, spec.name, spec.size(), spec.role == TRP_REWARD);
    }));
  }
  Spec seen = spec;
  if (is_observation && options.one_hot && !spec.categories.empty()) {
    seen.shape = spec.OneHotShape();
    seen.categories = spec.Choices();
    seen.one_hot = true;
    AddStage(EncodeOneHot(output, AddColumn(std::move(seen)), spec.name, spec.categories));
    return;
  }
  if (is_observation && IsFloat(spec.dtype) && options.float_dtype >= 0 &&
      options.float_dtype != spec.dtype) {
    seen.dtype = static_cast<trp_dtype>(options.float_dtype);
    const std::size_t column = AddColumn(std::move(seen));
    AddStage(WithFloat(spec.dtype, [&](auto zero) {
      using From = decltype(zero);
      return options.float_dtype == TRP_FLOAT32 ? Convert<From, float>(output, column, spec.size())
                                                : Convert<From, double>(output, column, spec.size());
    }));
    return;
  }
  targets.back().column = static_cast<int>(AddColumn(std::move(seen)));
}

Layout::Layout(const Config& config, const LayoutOptions& options) {
  if (options.float_dtype >= 0 && options.float_dtype != TRP_FLOAT32 && options.float_dtype != TRP_FLOAT64) {
    throw StatusError(TRP_INVALID_ARGUMENT, "obs_dtype must be float32 or float64");
  }
  auto unknown = options.info_keys;
  const auto wanted = [&](const std::string& key) {
    std::erase(unknown, key);
    return std::find(options.info_keys.begin(), options.info_keys.end(), key) != options.info_keys.end();
  };

  for (const Spec& spec : config.specs()) {
    if (spec.role == TRP_ACTION) {
      AddAction(spec, options);
    } else {
      AddOutput(spec, options, spec.role == TRP_INFO && wanted(spec.name));
    }
  }
  if (options.from_pixels) {
    const auto [height, width] = config.RenderSize();
    AddStage(Picture(AddColumn(
        {kPixels, "a picture of the env", TRP_OBSERVATION, TRP_UINT8, {height, width, 3}, {}, {}, {}})));
  }
  terminated = AddColumn(Flag("terminated", "the episode ended by its own rules", TRP_DONE));
  truncated = AddColumn(Flag("truncated", "the episode was cut off", TRP_DONE));
  done = AddColumn(Flag("done", "terminated or truncated", TRP_DONE));
  if (wanted(kStepCount)) {
    AddStage(StepCount(
        AddColumn({kStepCount, "steps since the last reset", TRP_INFO, TRP_INT64, {1}, {0.0}, {}, {}})));
  }
  std::size_t output = 0;
  for (const Spec& spec : config.specs()) {
    if (spec.role == TRP_ACTION) continue;
    if (spec.role == TRP_REWARD && HasOneReward(config) && wanted(kExactReward)) {
      const char* help = "reward before it is rounded to float32";
      const Spec exact{kExactReward, help, TRP_INFO, TRP_FLOAT64, {1}, {}, {}, {}};
      AddStage(ExactReward(output, AddColumn(exact)));
    }
    if (IsSummed(spec) && wanted(EpisodeKey(spec.name))) {
      const std::string key = EpisodeKey(spec.name);
      const char* help = "sum of rewards since the last reset";
      const std::size_t column = AddColumn({key, help, TRP_INFO, spec.dtype, spec.shape, {}, {}, {}});
      if (spec.dtype == TRP_FLOAT64) {
        AddStage(EpisodeReward<double>(output, column, key, spec.size()));
      } else {
        AddStage(EpisodeReward<float>(output, column, key, spec.size()));
      }
    }
    ++output;
  }
  if (wanted(kIsInit)) {
    AddStage(IsInit(AddColumn(Flag(kIsInit, "whether an episode begins here", TRP_INFO))));
  }
  if (!unknown.empty()) RefuseInfoKey(config, unknown.front());
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
