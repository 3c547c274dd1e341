#include "layout.h"

#include <algorithm>
#include <numeric>

#include "errors.h"

namespace torchrl_pool::core {
namespace {

template <class From, class To>
void Convert(const void* from, void* to, std::size_t count) {
  std::copy_n(static_cast<const From*>(from), count, static_cast<To*>(to));
}

Converter FloatConverter(trp_dtype from, trp_dtype to) {
  if (from == TRP_FLOAT64 && to == TRP_FLOAT32) return Convert<double, float>;
  if (from == TRP_FLOAT32 && to == TRP_FLOAT64) return Convert<float, double>;
  throw StatusError(TRP_INVALID_ARGUMENT, "obs_dtype must be float32 or float64");
}

bool IsFloat(trp_dtype dtype) { return dtype == TRP_FLOAT32 || dtype == TRP_FLOAT64; }

constexpr char kStepCount[] = "step_count";
constexpr char kIsInit[] = "is_init";
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

// Whatever an env writes must be aligned for its dtype.
std::size_t Reserve(std::size_t* total, std::size_t bytes) {
  const std::size_t offset = *total;
  *total += (bytes + 63) / 64 * 64;
  return offset;
}

}  // namespace

std::vector<std::string> NativeKeys(const Config& config) {
  std::vector<std::string> keys = {kStepCount, kIsInit};
  for (const Spec& spec : config.specs()) {
    if (spec.role == TRP_REWARD) keys.push_back(EpisodeKey(spec.name));
  }
  return keys;
}

Layout::Layout(const Config& config, const LayoutOptions& options) {
  auto unknown = options.info_keys;
  const auto wanted = [&](const std::string& key) {
    std::erase(unknown, key);
    return std::find(options.info_keys.begin(), options.info_keys.end(), key) != options.info_keys.end();
  };
  const auto add = [&](Spec spec) {
    const std::size_t bytes = spec.size() * ItemSize(spec.dtype);
    outputs.push_back({std::move(spec), bytes});
    return outputs.size() - 1;
  };

  for (const Spec& spec : config.specs()) {
    const std::size_t bytes = spec.size() * ItemSize(spec.dtype);
    if (spec.role == TRP_ACTION) {
      ActionColumn column{spec, options.one_hot && !spec.categories.empty(), bytes};
      column.scratch_offset = Reserve(&scratch_bytes, bytes);
      if (column.one_hot) {
        const auto width = std::accumulate(spec.categories.begin(), spec.categories.end(), std::int64_t{0});
        column.row_bytes = static_cast<std::size_t>(width) * sizeof(std::int64_t);
      }
      actions.push_back(std::move(column));
      continue;
    }
    task_scratch.push_back(Reserve(&scratch_bytes, bytes));
    if (spec.role == TRP_INFO && !wanted(spec.name)) {
      task_columns.push_back(kUnwanted);
      continue;
    }
    if (spec.role == TRP_OBSERVATION && options.from_pixels && options.pixels_only) {
      task_columns.push_back(kHidden);
      continue;
    }
    if (options.refuse_nan && IsFloat(spec.dtype)) {
      numbers.push_back(
          {task_columns.size(), spec.size(), spec.dtype == TRP_FLOAT64, spec.role == TRP_REWARD, spec.name});
    }
    Spec seen = spec;
    if (spec.role == TRP_OBSERVATION && IsFloat(spec.dtype) && options.float_dtype >= 0 &&
        options.float_dtype != spec.dtype) {
      seen.dtype = static_cast<trp_dtype>(options.float_dtype);
      converted.push_back({outputs.size(), task_columns.size(), task_scratch.back(), spec.size(),
                           FloatConverter(spec.dtype, seen.dtype)});
    }
    if (spec.role == TRP_OBSERVATION && options.one_hot && !spec.categories.empty()) {
      seen.shape = spec.OneHotShape();
      seen.categories = spec.Choices();
      seen.one_hot = true;
      one_hot.push_back({outputs.size(), task_columns.size(), task_scratch.back(), spec.categories});
    }
    task_columns.push_back(static_cast<int>(add(std::move(seen))));
  }

  if (options.from_pixels) {
    const auto [height, width] = config.RenderSize();
    pixels = static_cast<int>(
        add({kPixels, "a picture of the env", TRP_OBSERVATION, TRP_UINT8, {height, width, 3}, {}, {}, {}}));
  }
  terminated = add(Flag("terminated", "the episode ended by its own rules", TRP_DONE));
  truncated = add(Flag("truncated", "the episode was cut off", TRP_DONE));
  done = add(Flag("done", "terminated or truncated", TRP_DONE));
  if (wanted(kStepCount)) {
    step_count = static_cast<int>(
        add({kStepCount, "steps since the last reset", TRP_INFO, TRP_INT64, {1}, {0.0}, {}, {}}));
  }
  for (std::size_t i = 0; i < task_columns.size(); ++i) {
    if (task_columns[i] < 0) continue;
    const Spec reward = outputs[static_cast<std::size_t>(task_columns[i])].spec;
    if (reward.role != TRP_REWARD || !wanted(EpisodeKey(reward.name))) continue;
    const std::size_t column = add({EpisodeKey(reward.name),
                                    "sum of rewards since the last reset",
                                    TRP_INFO,
                                    TRP_FLOAT32,
                                    reward.shape,
                                    {},
                                    {},
                                    {}});
    episode_rewards.push_back({column, i, reward_size, reward.size()});
    reward_size += reward.size();
  }
  if (wanted(kIsInit)) {
    is_init = static_cast<int>(add(Flag(kIsInit, "whether an episode begins here", TRP_INFO)));
  }

  if (!unknown.empty()) {
    std::string known;
    for (const auto& key : NativeKeys(config)) known += (known.empty() ? "" : ", ") + key;
    for (const Spec& spec : config.specs()) {
      if (spec.role == TRP_INFO) known += ", " + spec.name;
    }
    throw StatusError(TRP_INVALID_ARGUMENT, std::string("task '") + config.task().id + "' has no info key '" +
                                                unknown.front() + "'; it has: " + known);
  }
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
