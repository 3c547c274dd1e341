// What the author of an env includes. An env is one class:
//
//   #include <torchrl_pool/env.h>
//   #include <torchrl_pool/rng.h>
//   namespace pool = torchrl_pool;
//
//   class Walk {
//    public:
//     struct Options {                         // parsed once per distinct set of options and then shared,
//       double goal = 3.0;                     // read-only, by all envs that have them
//       template <class Visitor> void Visit(Visitor& visit) { visit("goal", goal, "position to reach"); }
//     };
//     static pool::Specs MakeSpecs(const Options& options) {
//       return {pool::Observation("observation", pool::Box<float>({1}, -options.goal, options.goal)),
//               pool::Action("action", pool::Discrete(2))};
//     }
//     explicit Walk(const Options& options) : options_(options) {}
//     void Seed(pool::Entropy entropy) { rng_ = pool::Rng(entropy); }
//     void Reset(pool::Row& row) { x_ = rng_.Uniform(-1, 1); Write(row); }
//     pool::Outcome Step(pool::Row& row) {
//       x_ += row.Action<std::int64_t>()[0] ? 1 : -1;
//       Write(row);
//       return {.reward = -1, .terminated = x_ >= options_.goal};
//     }
//     template <class Visitor> void VisitState(Visitor& visit) { visit(rng_, x_); }   // optional
//    private: …
//   };
//   const bool registered = pool::Register<Walk>({.id = "Walk-v0", .max_episode_steps = 100});
//   TORCHRL_POOL_PLUGIN("walks", "1.0")        // once per library
//
// Anything that fails throws; the pool turns it into a Python exception that names the env. Further
// optional members: `void Open()` of Options (load shared data, once, after parsing; or `void Open(const
// std::string& task_id)`, where several tasks share a class),
// `static pool::ImageSize RenderSize(const Options&)` with `void Render(std::uint8_t* rgb)`, and what a
// caller may choose for one reset, as in PoolEnv.reset(options={"start": 2.0}):
//     struct ResetOptions {                    // its defaults stand for what is not chosen
//       double start = 0;
//       template <class Visitor> void Visit(Visitor& visit) { visit("start", start, "first position"); }
//     };
//     void Reset(pool::Row& row, const ResetOptions& options) { x_ = options.start; Write(row); }
// Where they depend on the Options, ResetOptions has a constructor that takes these; it may have an Open()
// too. A Python package that the tasks read files of is a global `const pool::Package`.
#ifndef TORCHRL_POOL_ENV_H_
#define TORCHRL_POOL_ENV_H_

#include <cstdint>
#include <deque>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "torchrl_pool/abi.h"
#include "torchrl_pool/error.h"
#include "torchrl_pool/option.h"
#include "torchrl_pool/rng.h"
#include "torchrl_pool/row.h"
#include "torchrl_pool/spec.h"
#include "torchrl_pool/state.h"

#pragma GCC visibility push(hidden)  // the parts of two plugins must not merge in one process
namespace torchrl_pool {

// What a step returns besides what it wrote to its row.
struct Outcome {
  double reward = 0;
  bool terminated = false;
  bool truncated = false;  // by the env itself; never by max_episode_steps, which the pool keeps
};

struct ImageSize {
  std::int64_t height, width;
};

struct TaskInfo {
  std::string id;
  std::string description = "";
  std::int64_t max_episode_steps = 0;  // 0: no limit
  double reward_threshold = std::numeric_limits<double>::quiet_NaN();
};

namespace internal {

struct NoResetOptions {
  template <class Visitor>
  void Visit(Visitor&) {}
};
template <class Env>
struct ResetOptionsOf {
  using Type = NoResetOptions;
};
template <class Env>
  requires requires { typename Env::ResetOptions; }
struct ResetOptionsOf<Env> {
  using Type = typename Env::ResetOptions;
};

// Calls the Open of a struct of options, where it has one.
template <class Options>
void OpenOptions([[maybe_unused]] Options& options, [[maybe_unused]] const char* task_id) {
  if constexpr (requires { options.Open(std::string()); }) {
    options.Open(task_id);
  } else if constexpr (requires { options.Open(); }) {
    options.Open();
  }
}

// Options and specs of one configuration, with the specs in the ABI's form.
template <class Env>
struct Config {
  using Reset = typename ResetOptionsOf<Env>::Type;
  static constexpr bool kTakesResetOptions = !std::is_same_v<Reset, NoResetOptions>;

  typename Env::Options options;
  std::optional<Reset> reset;  // the defaults
  Specs declared;              // by MakeSpecs: what a Row is checked against
  Specs specs;
  std::vector<trp_spec> raw;
  int implied_reward = -1;  // output index of the reward that the wrapper writes, or -1

  Reset DefaultReset() const {
    if constexpr (requires { Reset(options); }) {
      return Reset(options);
    } else {
      return Reset();
    }
  }

  void Describe() {
    reset.emplace(DefaultReset());
    declared = specs = Env::MakeSpecs(options);
    bool has_reward = false;
    for (const auto& spec : specs) has_reward = has_reward || spec.role == TRP_REWARD;
    if (!has_reward) specs.push_back(Reward("reward", {1}));
    int output = 0;
    for (auto& spec : specs) {
      if (spec.role == TRP_REWARD && !has_reward) implied_reward = output;
      output += spec.role != TRP_ACTION;
      Space& space = spec.space;
      std::size_t size = 1;
      for (const auto extent : space.shape) size *= static_cast<std::size_t>(extent);
      for (auto* bound : {&space.low, &space.high}) {
        if (bound->size() == 1) bound->resize(size, bound->front());
        if (!bound->empty() && bound->size() != size) {
          throw InvalidArgument("the bounds of '" + spec.name + "' do not fit its shape");
        }
      }
      raw.push_back({spec.name.c_str(), spec.help.c_str(), spec.role, space.dtype,
                     static_cast<std::int32_t>(space.shape.size()), space.shape.data(),
                     space.low.empty() ? nullptr : space.low.data(),
                     space.high.empty() ? nullptr : space.high.data(),
                     static_cast<std::int32_t>(space.categories.size()), space.categories.data()});
    }
  }
};

// Env's class as the ABI's functions.
template <class Env>
struct Adapter {
  struct Instance {
    explicit Instance(const Config<Env>* config) : config(config), env(config->options) {}
    const Config<Env>* config;
    Env env;
  };
  using ResetOptions = typename Config<Env>::Reset;
  static Config<Env>* Cast(trp_config* config) { return reinterpret_cast<Config<Env>*>(config); }
  static const Config<Env>* Cast(const trp_config* config) {
    return reinterpret_cast<const Config<Env>*>(config);
  }
  static Instance* Cast(trp_env* env) { return reinterpret_cast<Instance*>(env); }

  static int Open(const trp_task* task, const trp_value* values, trp_config** out, trp_error* error) {
    return Guard(error, [&] {
      auto config = std::make_unique<Config<Env>>();
      OptionParser parser(values);
      config->options.Visit(parser);
      OpenOptions(config->options, task->id);
      config->Describe();
      *out = reinterpret_cast<trp_config*>(config.release());
    });
  }
  static void Close(trp_config* config) { delete Cast(config); }
  static std::int64_t GetSpecs(const trp_config* config, const trp_spec** specs) {
    *specs = Cast(config)->raw.data();
    return static_cast<std::int64_t>(Cast(config)->raw.size());
  }
  static int Create(const trp_config* config, trp_env** out, trp_error* error) {
    return Guard(error, [&] { *out = reinterpret_cast<trp_env*>(new Instance(Cast(config))); });
  }
  static void Destroy(trp_env* env) { delete Cast(env); }
  static int Seed(trp_env* env, const std::uint32_t* words, std::size_t count, trp_error* error) {
    return Guard(error, [&] { Cast(env)->env.Seed(Entropy{words, count}); });
  }
  static int Reset(trp_env* env, void* const* outputs, trp_error* error) {
    return Guard(error, [&] {
      Row row(nullptr, outputs, Cast(env)->config->declared);
      if constexpr (Config<Env>::kTakesResetOptions) {
        Cast(env)->env.Reset(row, *Cast(env)->config->reset);
      } else {
        Cast(env)->env.Reset(row);
      }
    });
  }
  static int OpenReset(const trp_config* config, const trp_value* const* values, trp_reset** out,
                       trp_error* error) {
    return Guard(error, [&] {
      auto reset = std::make_unique<ResetOptions>(Cast(config)->DefaultReset());
      ChoiceParser parser(values);
      reset->Visit(parser);
      OpenOptions(*reset, "");
      *out = reinterpret_cast<trp_reset*>(reset.release());
    });
  }
  static void CloseReset(trp_reset* reset) { delete reinterpret_cast<ResetOptions*>(reset); }
  static int ResetWith(trp_env* env, const trp_reset* reset, void* const* outputs, trp_error* error) {
    return Guard(error, [&] {
      Row row(nullptr, outputs, Cast(env)->config->declared);
      Cast(env)->env.Reset(row, *reinterpret_cast<const ResetOptions*>(reset));
    });
  }
  static int Step(trp_env* env, const void* const* actions, void* const* outputs, trp_step_result* result,
                  trp_error* error) {
    return Guard(error, [&] {
      Row row(actions, outputs, Cast(env)->config->declared);
      const Outcome outcome = Cast(env)->env.Step(row);
      const int reward = Cast(env)->config->implied_reward;
      if (reward >= 0) {
        *static_cast<float*>(outputs[reward]) = static_cast<float>(outcome.reward);
        result->reward = outcome.reward;
      }
      result->terminated = outcome.terminated;
      result->truncated = outcome.truncated;
    });
  }
  static int RenderSize(const trp_config* config, std::int64_t* height, std::int64_t* width,
                        trp_error* error) {
    return Guard(error, [&] {
      const ImageSize size = Env::RenderSize(Cast(config)->options);
      *height = size.height;
      *width = size.width;
    });
  }
  static int Render(trp_env* env, std::uint8_t* rgb, trp_error* error) {
    return Guard(error, [&] { Cast(env)->env.Render(rgb); });
  }
  static int Save(trp_env* env, std::uint8_t* bytes, std::size_t* size, trp_error* error) {
    return Guard(error, [&] {
      StateWriter writer;
      Cast(env)->env.VisitState(writer);
      if (*size >= writer.bytes().size()) {
        std::memcpy(bytes, writer.bytes().data(), writer.bytes().size());
      }
      *size = writer.bytes().size();
    });
  }
  static int Load(trp_env* env, const std::uint8_t* bytes, std::size_t size, trp_error* error) {
    return Guard(error, [&] {
      StateWriter backup;
      Cast(env)->env.VisitState(backup);
      try {
        StateReader reader(bytes, size);
        Cast(env)->env.VisitState(reader);
        if (!reader.finished()) throw InvalidArgument("the saved state is too long for this task");
      } catch (...) {
        StateReader reader(backup.bytes().data(), backup.bytes().size());
        Cast(env)->env.VisitState(reader);
        throw;
      }
    });
  }
};

// All tasks of this library.
class Registry {
 public:
  static Registry& Get() {
    // Never destroyed: at the end of the process a thread may still be in one of its envs.
    static Registry& registry = *new Registry;
    return registry;
  }

  template <class Env>
  void Add(const TaskInfo& info, typename Env::Options defaults) {
    auto& entry = entries_.emplace_back();
    entry.info = info;
    defaults.Visit(entry.options);
    using A = Adapter<Env>;
    trp_task& task = entry.task;
    task.id = entry.info.id.c_str();
    task.description = entry.info.description.c_str();
    task.max_episode_steps = info.max_episode_steps;
    task.reward_threshold = info.reward_threshold;
    task.options = entry.options.options().data();
    task.num_options = static_cast<std::int64_t>(entry.options.options().size());
    task.open = A::Open;
    task.close = A::Close;
    task.specs = A::GetSpecs;
    task.create = A::Create;
    task.destroy = A::Destroy;
    task.seed = A::Seed;
    task.reset = A::Reset;
    task.step = A::Step;
    if constexpr (requires(Env env, std::uint8_t* rgb) { env.Render(rgb); }) {
      task.render_size = A::RenderSize;
      task.render = A::Render;
    }
    if constexpr (requires(Env env, StateWriter writer) { env.VisitState(writer); }) {
      task.save = A::Save;
      task.load = A::Load;
    }
    if constexpr (Config<Env>::kTakesResetOptions) {
      Config<Env>().DefaultReset().Visit(entry.reset_options);
      task.reset_options = entry.reset_options.options().data();
      task.num_reset_options = static_cast<std::int64_t>(entry.reset_options.options().size());
      task.open_reset = A::OpenReset;
      task.close_reset = A::CloseReset;
      task.reset_with = A::ResetWith;
    }
    tasks_.push_back(&task);
  }

  // Gives the number of the package.
  std::size_t AddPackage(const char* name, const char* version) {
    packages_.push_back({name, version});
    return packages_.size() - 1;
  }
  const std::string& FolderOf(std::size_t package) const {
    if (!HasFolder(package)) {
      throw FileNotFound(std::string("this needs the Python package '") + packages_[package].name +
                         "', which is not installed");
    }
    return folders_[package];
  }
  bool HasFolder(std::size_t package) const {
    return package < folders_.size() && !folders_[package].empty();
  }

  const trp_plugin* Describe(const char* family, const char* version) {
    plugin_ = {.abi_version = TRP_ABI_VERSION,
               .family = family,
               .version = version,
               .num_tasks = static_cast<std::int64_t>(tasks_.size()),
               .tasks = tasks_.data(),
               .num_packages = static_cast<std::int64_t>(packages_.size()),
               .packages = packages_.data(),
               .locate = Locate};
    return &plugin_;
  }

 private:
  struct Entry {
    TaskInfo info;
    OptionDeclarer options, reset_options;
    trp_task task{};
  };
  static void Locate(std::int64_t package, const char* folder) {
    auto& folders = Get().folders_;
    folders.resize(Get().packages_.size());
    folders[static_cast<std::size_t>(package)] = folder;
  }

  std::deque<Entry> entries_;
  std::vector<const trp_task*> tasks_;
  std::vector<trp_package> packages_;
  std::vector<std::string> folders_;
  trp_plugin plugin_{};
};

}  // namespace internal

// A Python package whose files the tasks of this library read, looked up before any of them is opened.
class Package {
 public:
  // name: as it is imported. version: the only one that will do; null: any.
  explicit Package(const char* name, const char* version = nullptr)
      : number_(internal::Registry::Get().AddPackage(name, version)) {}

  bool is_installed() const { return internal::Registry::Get().HasFolder(number_); }
  // Throws FileNotFound where it is not installed.
  const std::string& folder() const { return internal::Registry::Get().FolderOf(number_); }

 private:
  std::size_t number_;
};

// Adds a task to this library; the value has no meaning but to initialise a global. Tasks of one class may
// have other defaults of the options that Visit names.
template <class Env>
bool Register(const TaskInfo& info, typename Env::Options defaults = typename Env::Options()) {
  internal::Registry::Get().Add<Env>(info, std::move(defaults));
  return true;
}

}  // namespace torchrl_pool
#pragma GCC visibility pop

#define TORCHRL_POOL_PLUGIN(family, version)                                                            \
  extern "C" __attribute__((visibility("default"))) const trp_plugin* torchrl_pool_plugin(trp_error*) { \
    return ::torchrl_pool::internal::Registry::Get().Describe(family, version);                         \
  }

#endif  // TORCHRL_POOL_ENV_H_
