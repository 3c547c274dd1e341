// The envs of one task, stepped by plain threads: no pool, no queues, no batches. What a pool is measured
// against. throughput.py compiles and loads it.
#include <dlfcn.h>

#include <algorithm>
#include <cstdio>
#include <future>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "torchrl_pool/abi.h"

namespace {

std::size_t RowBytes(const trp_spec& spec) {
  constexpr std::size_t kBytes[] = {1, 1, 1, 2, 4, 8, 4, 8, 2, 2, 4, 8};  // by trp_dtype
  std::size_t bytes = kBytes[spec.dtype];
  for (int i = 0; i < spec.ndim; ++i) bytes *= static_cast<std::size_t>(spec.shape[i]);
  return bytes;
}

void Check(int status, const trp_error& error) {
  if (status != TRP_OK) throw std::runtime_error(error.message);
}

// What one thread steps. Its envs write to one row, which nobody reads; no infos are asked for.
struct Share {
  Share(const trp_task& task, const trp_config* config, int first_env, int last_env) : task(task) {
    const trp_spec* specs = nullptr;
    const auto num_specs = task.specs(config, &specs);
    for (std::int64_t i = 0; i < num_specs; ++i) {
      if (specs[i].role == TRP_ACTION) {
        action_offsets.push_back(action_bytes);
        action_bytes += RowBytes(specs[i]);
        continue;
      }
      rows.emplace_back(specs[i].role == TRP_INFO ? 0 : RowBytes(specs[i]));
      outputs.push_back(rows.back().empty() ? nullptr : rows.back().data());
    }
    for (int i = first_env; i < last_env; ++i) {
      trp_env* env = nullptr;
      Check(task.create(config, &env, &error), error);
      envs.push_back(env);
      const auto seed = static_cast<std::uint32_t>(i);
      Check(task.seed(env, &seed, 1, &error), error);
      Check(task.reset(env, outputs.data(), &error), error);
    }
    elapsed_steps.resize(envs.size());
    next_action = first_env;
  }
  ~Share() {
    for (trp_env* env : envs) task.destroy(env);
  }

  void Run(std::int64_t steps, const std::uint8_t* actions, std::int64_t num_rows) {
    std::vector<const void*> columns(action_offsets.size());
    for (std::int64_t step = 0; step < steps; ++step) {
      for (std::size_t i = 0; i < envs.size(); ++i) {
        next_action = (next_action + 1) % num_rows;
        const std::uint8_t* row = actions + static_cast<std::size_t>(next_action) * action_bytes;
        for (std::size_t k = 0; k < columns.size(); ++k) columns[k] = row + action_offsets[k];
        trp_step_result result{};
        Check(task.step(envs[i], columns.data(), outputs.data(), &result, &error), error);
        const bool timed_out = ++elapsed_steps[i] == task.max_episode_steps;
        if (!timed_out && !result.terminated && !result.truncated) continue;
        elapsed_steps[i] = 0;
        Check(task.reset(envs[i], outputs.data(), &error), error);
      }
    }
  }

  const trp_task& task;
  std::vector<trp_env*> envs;
  std::vector<std::int64_t> elapsed_steps;
  std::vector<std::vector<std::uint8_t>> rows;
  std::vector<void*> outputs;
  std::vector<std::size_t> action_offsets;  // in a row of actions, which has all of an env's
  std::size_t action_bytes = 0;
  std::int64_t next_action;
  trp_error error{};
};

class Loop {
 public:
  // The options have their defaults.
  Loop(const trp_task& task, int num_envs, int num_threads) : task_(task) {
    std::vector<trp_value> values;
    for (std::int64_t i = 0; i < task.num_options; ++i) values.push_back(task.options[i].default_value);
    trp_error error{};
    Check(task.open(&task, values.data(), &config_, &error), error);
    const int count = std::min(num_envs, num_threads);
    for (int i = 0; i < count; ++i) {
      shares_.push_back(
          std::make_unique<Share>(task, config_, num_envs * i / count, num_envs * (i + 1) / count));
    }
  }
  ~Loop() {
    shares_.clear();
    task_.close(config_);
  }

  void Run(std::int64_t steps, const std::uint8_t* actions, std::int64_t num_rows) {
    const auto run = [&](Share& share) { share.Run(steps, actions, num_rows); };
    std::vector<std::future<void>> others;
    for (std::size_t i = 1; i < shares_.size(); ++i) {
      others.push_back(std::async(std::launch::async, run, std::ref(*shares_[i])));
    }
    run(*shares_[0]);
    for (auto& other : others) other.get();
  }

 private:
  const trp_task& task_;
  trp_config* config_ = nullptr;
  std::vector<std::unique_ptr<Share>> shares_;
};

const trp_task& Find(const char* library, const std::string& id) {
  void* handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
  if (!handle) throw std::runtime_error(dlerror());
  trp_error error{};
  const trp_plugin* plugin = reinterpret_cast<trp_entry_point>(dlsym(handle, TRP_ENTRY_POINT))(&error);
  for (std::int64_t i = 0; i < plugin->num_tasks; ++i) {
    if (id == plugin->tasks[i]->id) return *plugin->tasks[i];
  }
  throw std::runtime_error("no task " + id);
}

// Calls the function, and returns whether it worked; if not, `message` has 1,024 characters for the reason.
template <class Function>
bool Try(Function function, char* message) {
  try {
    function();
    return true;
  } catch (const std::exception& error) {
    std::snprintf(message, 1024, "%s", error.what());
    return false;
  }
}

}  // namespace

#define EXPORTED extern "C" __attribute__((visibility("default")))

// Null where it fails.
EXPORTED Loop* bare_loop_open(const char* library, const char* task, int num_envs, int num_threads,
                              char* message) {
  Loop* loop = nullptr;
  Try([&] { loop = new Loop(Find(library, task), num_envs, num_threads); }, message);
  return loop;
}

// Steps each env so many times; the envs take the rows of actions in turn.
EXPORTED bool bare_loop_run(Loop* loop, std::int64_t steps, const std::uint8_t* actions,
                            std::int64_t num_rows, char* message) {
  return Try([&] { loop->Run(steps, actions, num_rows); }, message);
}

EXPORTED void bare_loop_close(Loop* loop) { delete loop; }
