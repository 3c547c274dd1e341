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
// optional members: `void Open()` of Options (load shared data, once, after parsing), and
// `pool::ImageSize RenderSize() const` with `void Render(std::uint8_t* rgb)`.
#ifndef TORCHRL_POOL_ENV_H_
#define TORCHRL_POOL_ENV_H_

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <deque>
#include <initializer_list>
#include <limits>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "torchrl_pool/abi.h"
#include "torchrl_pool/rng.h"

// Hidden, so that the registries of two plugins never merge in one process.
namespace torchrl_pool __attribute__((visibility("hidden"))) {

  // ---- errors: throw these, or any std::exception -------------------------------------------------

  class InvalidArgument : public std::invalid_argument {  // Python: ValueError
    using std::invalid_argument::invalid_argument;
  };
  class FileNotFound : public std::runtime_error {  // Python: FileNotFoundError
    using std::runtime_error::runtime_error;
  };
  class Unsupported : public std::runtime_error {  // Python: NotImplementedError
    using std::runtime_error::runtime_error;
  };

  // ---- specs --------------------------------------------------------------------------------------

  template <class T>
  constexpr trp_dtype DtypeOf() {
    if constexpr (std::is_same_v<T, bool>)
      return TRP_BOOL;
    else if constexpr (std::is_same_v<T, std::uint8_t>)
      return TRP_UINT8;
    else if constexpr (std::is_same_v<T, std::int8_t>)
      return TRP_INT8;
    else if constexpr (std::is_same_v<T, std::int16_t>)
      return TRP_INT16;
    else if constexpr (std::is_same_v<T, std::int32_t>)
      return TRP_INT32;
    else if constexpr (std::is_same_v<T, std::int64_t>)
      return TRP_INT64;
    else if constexpr (std::is_same_v<T, float>)
      return TRP_FLOAT32;
    else {
      static_assert(std::is_same_v<T, double>, "not a tensor dtype");
      return TRP_FLOAT64;
    }
  }

  // The values that one tensor of an env may take.
  struct Space {
    trp_dtype dtype = TRP_FLOAT32;
    std::vector<std::int64_t> shape;
    std::vector<double> low, high;  // empty: unbounded; one value: the same for all; else one an element
    std::vector<std::int64_t> categories;
  };

  template <class T>
  Space Box(std::vector<std::int64_t> shape) {
    return {.dtype = DtypeOf<T>(), .shape = std::move(shape), .low = {}, .high = {}, .categories = {}};
  }
  template <class T>
  Space Box(std::vector<std::int64_t> shape, std::vector<double> low, std::vector<double> high) {
    return {.dtype = DtypeOf<T>(),
            .shape = std::move(shape),
            .low = std::move(low),
            .high = std::move(high),
            .categories = {}};
  }
  template <class T>
  Space Box(std::vector<std::int64_t> shape, double low, double high) {
    return Box<T>(std::move(shape), std::vector<double>{low}, std::vector<double>{high});
  }
  // One of 0 … count-1, as int64.
  inline Space Discrete(std::int64_t count) {
    return {.dtype = TRP_INT64, .shape = {}, .low = {}, .high = {}, .categories = {count}};
  }
  // Several choices at once, as int64 [counts.size()].
  inline Space MultiDiscrete(std::vector<std::int64_t> counts) {
    const auto size = static_cast<std::int64_t>(counts.size());
    return {.dtype = TRP_INT64, .shape = {size}, .low = {}, .high = {}, .categories = std::move(counts)};
  }

  struct Spec {
    trp_role role;
    std::string name;
    Space space;
    std::string help;
  };
  using Specs = std::vector<Spec>;

  inline Spec Observation(std::string name, Space space, std::string help = "") {
    return {TRP_OBSERVATION, std::move(name), std::move(space), std::move(help)};
  }
  inline Spec Action(std::string name, Space space, std::string help = "") {
    return {TRP_ACTION, std::move(name), std::move(space), std::move(help)};
  }
  // An observation that is written only when the user names it in info_keys: Row::Out gives NULL else.
  inline Spec Info(std::string name, Space space, std::string help = "") {
    return {TRP_INFO, std::move(name), std::move(space), std::move(help)};
  }
  // Only for rewards that are more than one number; without it Outcome::reward is the reward.
  inline Spec Reward(std::string name, std::vector<std::int64_t> shape, std::string help = "") {
    return {TRP_REWARD, std::move(name), Box<float>(std::move(shape)), std::move(help)};
  }
  // Done flags beside the env's own, which every env has through its Outcome.
  inline Spec Done(std::string name, std::vector<std::int64_t> shape, std::string help = "") {
    return {TRP_DONE, std::move(name), Box<bool>(std::move(shape)), std::move(help)};
  }

  // ---- stepping -----------------------------------------------------------------------------------

  // What a step returns besides what it wrote to its row.
  struct Outcome {
    double reward = 0;
    bool terminated = false;
    bool truncated = false;  // by the env itself; never by max_episode_steps, which the pool keeps
  };

  // One env's slices of the batch: where it writes, and what it was told to do.
  class Row {
   public:
    Row(const void* const* actions, void* const* outputs) : actions_(actions), outputs_(outputs) {}

    // The i-th spec that is not an action, in the order of MakeSpecs.
    template <class T>
    T* Out(int i = 0) const {
      return static_cast<T*>(outputs_[i]);
    }

    // The i-th action spec. Not for Reset.
    template <class T>
    const T* Action(int i = 0) const {
      return static_cast<const T*>(actions_[i]);
    }

   private:
    const void* const* actions_;
    void* const* outputs_;
  };

  struct ImageSize {
    std::int64_t height, width;
  };

  // ---- registration -------------------------------------------------------------------------------

  struct TaskInfo {
    std::string id;
    std::string description = "";
    std::int64_t max_episode_steps = 0;  // 0: no limit
    double reward_threshold = std::numeric_limits<double>::quiet_NaN();
  };

  // Restrictions on an option, as the last argument of a visit.
  template <class T>
  struct Limits {
    std::vector<T> choices = {};
    double minimum = -std::numeric_limits<double>::infinity();
    double maximum = std::numeric_limits<double>::infinity();
  };

  namespace internal {

  // Runs what may throw; no exception leaves the plugin.
  template <class Function>
  int Guard(trp_error* error, Function&& function) noexcept {
    const auto fail = [error](trp_status status, const char* message) {
      std::snprintf(error->message, sizeof error->message, "%s", message);
      return status;
    };
    try {
      function();
      return TRP_OK;
    } catch (const FileNotFound& e) {
      return fail(TRP_FILE_NOT_FOUND, e.what());
    } catch (const Unsupported& e) {
      return fail(TRP_UNSUPPORTED, e.what());
    } catch (const std::invalid_argument& e) {
      return fail(TRP_INVALID_ARGUMENT, e.what());
    } catch (const std::exception& e) {
      return fail(TRP_RUNTIME_ERROR, e.what());
    } catch (...) {
      return fail(TRP_RUNTIME_ERROR, "an exception that is not a std::exception");
    }
  }

  // How each C++ type stands for an option's value.
  template <class T>
  struct OptionTraits;

  template <class T>
    requires(std::is_integral_v<T>)
  struct OptionTraits<T> {
    using Storage = std::vector<std::int64_t>;
    static constexpr trp_type kType = std::is_same_v<T, bool> ? TRP_TYPE_BOOL : TRP_TYPE_INT;
    static Storage Store(T value) { return {static_cast<std::int64_t>(value)}; }
    static T Load(const trp_value& value) { return static_cast<T>(value.ints[0]); }
  };
  template <class T>
    requires(std::is_floating_point_v<T>)
  struct OptionTraits<T> {
    using Storage = std::vector<double>;
    static constexpr trp_type kType = TRP_TYPE_FLOAT;
    static Storage Store(T value) { return {value}; }
    static T Load(const trp_value& value) { return static_cast<T>(value.floats[0]); }
  };
  template <>
  struct OptionTraits<std::string> {
    using Storage = std::string;
    static constexpr trp_type kType = TRP_TYPE_STRING;
    static Storage Store(const std::string& value) { return value; }
    static std::string Load(const trp_value& value) { return value.string; }
  };
  template <>
  struct OptionTraits<std::vector<std::int64_t>> {
    using Storage = std::vector<std::int64_t>;
    static constexpr trp_type kType = TRP_TYPE_INT_LIST;
    static Storage Store(const Storage& value) { return value; }
    static Storage Load(const trp_value& value) { return {value.ints, value.ints + value.count}; }
  };
  template <>
  struct OptionTraits<std::vector<double>> {
    using Storage = std::vector<double>;
    static constexpr trp_type kType = TRP_TYPE_FLOAT_LIST;
    static Storage Store(const Storage& value) { return value; }
    static Storage Load(const trp_value& value) { return {value.floats, value.floats + value.count}; }
  };
  template <class T, std::size_t size>
  struct OptionTraits<std::array<T, size>> {
    using List = OptionTraits<std::vector<T>>;
    using Storage = std::vector<T>;
    static constexpr trp_type kType = List::kType;
    static Storage Store(const std::array<T, size>& value) { return {value.begin(), value.end()}; }
    static std::array<T, size> Load(const trp_value& value) {
      std::array<T, size> array;
      const auto list = List::Load(value);
      std::copy_n(list.begin(), size, array.begin());
      return array;
    }
  };
  template <class T>
  constexpr std::int64_t kFixedCount = -1;
  template <class T, std::size_t size>
  constexpr std::int64_t kFixedCount<std::array<T, size>> = static_cast<std::int64_t>(size);

  template <class T>
  struct Unwrap {
    using Type = T;
    static constexpr bool kNullable = false;
  };
  template <class T>
  struct Unwrap<std::optional<T>> {
    using Type = T;
    static constexpr bool kNullable = true;
  };

  // Visits an Options struct and keeps its declarations, with the members' values as the defaults.
  class OptionDeclarer {
   public:
    template <class T>
    void operator()(const char* name, T& member, const char* help,
                    Limits<typename Unwrap<T>::Type> limits = {}) {
      using Traits = OptionTraits<typename Unwrap<T>::Type>;
      trp_option option{};
      option.name = name;
      option.help = help;
      option.nullable = Unwrap<T>::kNullable;
      option.minimum = limits.minimum;
      option.maximum = limits.maximum;
      option.fixed_count = kFixedCount<typename Unwrap<T>::Type>;
      if constexpr (Unwrap<T>::kNullable) {
        if (member)
          option.default_value = Keep<Traits>(*member);
        else
          option.default_value = {.type = Traits::kType,
                                  .is_none = 1,
                                  .count = 0,
                                  .ints = nullptr,
                                  .floats = nullptr,
                                  .string = nullptr};
      } else {
        option.default_value = Keep<Traits>(member);
      }
      if (!limits.choices.empty()) {
        auto& choices = choices_.emplace_back();
        for (const auto& choice : limits.choices) choices.push_back(Keep<Traits>(choice));
        option.choices = choices.data();
        option.num_choices = static_cast<std::int64_t>(choices.size());
      }
      options_.push_back(option);
    }

    const std::vector<trp_option>& options() const { return options_; }

   private:
    template <class Traits, class T>
    trp_value Keep(const T& native) {
      trp_value value{};
      value.type = Traits::kType;
      value.count = 1;
      auto storage = Traits::Store(native);
      if constexpr (std::is_same_v<decltype(storage), std::string>) {
        value.string = strings_.emplace_back(std::move(storage)).c_str();
      } else {
        value.count = static_cast<std::int64_t>(storage.size());
        if constexpr (std::is_same_v<decltype(storage), std::vector<double>>) {
          value.floats = floats_.emplace_back(std::move(storage)).data();
        } else {
          value.ints = ints_.emplace_back(std::move(storage)).data();
        }
      }
      return value;
    }

    std::vector<trp_option> options_;
    // Deques: what an option points to must not move when the next is declared.
    std::deque<std::vector<trp_value>> choices_;
    std::deque<std::vector<std::int64_t>> ints_;
    std::deque<std::vector<double>> floats_;
    std::deque<std::string> strings_;
  };

  // Visits an Options struct in the same order and fills its members.
  class OptionParser {
   public:
    explicit OptionParser(const trp_value* values) : next_(values) {}

    template <class T>
    void operator()(const char*, T& member, const char*, Limits<typename Unwrap<T>::Type> = {}) {
      const trp_value& value = *next_++;
      using Traits = OptionTraits<typename Unwrap<T>::Type>;
      if constexpr (Unwrap<T>::kNullable) {
        if (value.is_none) {
          member.reset();
          return;
        }
      }
      member = Traits::Load(value);
    }

   private:
    const trp_value* next_;
  };

  class StateWriter {
   public:
    template <class... T>
    void operator()(const T&... values) {
      (Write(values), ...);
    }
    const std::vector<std::uint8_t>& bytes() const { return bytes_; }

   private:
    template <class T>
    void Write(const T& value) {
      static_assert(std::is_trivially_copyable_v<T>, "visit vectors and strings element by element");
      const auto* begin = reinterpret_cast<const std::uint8_t*>(&value);
      bytes_.insert(bytes_.end(), begin, begin + sizeof value);
    }
    std::vector<std::uint8_t> bytes_;
  };

  class StateReader {
   public:
    StateReader(const std::uint8_t* bytes, std::size_t size) : bytes_(bytes), size_(size) {}
    template <class... T>
    void operator()(T&... values) {
      (Read(values), ...);
    }
    bool finished() const { return size_ == 0; }

   private:
    template <class T>
    void Read(T& value) {
      static_assert(std::is_trivially_copyable_v<T>);
      if (size_ < sizeof value) throw InvalidArgument("the saved state is too short for this task");
      std::memcpy(&value, bytes_, sizeof value);
      bytes_ += sizeof value;
      size_ -= sizeof value;
    }
    const std::uint8_t* bytes_;
    std::size_t size_;
  };

  // Options and specs of one configuration, with the specs in the ABI's form.
  template <class Env>
  struct Config {
    typename Env::Options options;
    Specs specs;
    std::vector<trp_spec> raw;
    int implied_reward = -1;  // output index of the reward that the wrapper writes, or -1

    void Describe() {
      specs = Env::MakeSpecs(options);
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
    static Config<Env>* Cast(trp_config* config) { return reinterpret_cast<Config<Env>*>(config); }
    static const Config<Env>* Cast(const trp_config* config) {
      return reinterpret_cast<const Config<Env>*>(config);
    }
    static Instance* Cast(trp_env* env) { return reinterpret_cast<Instance*>(env); }

    static int Open(const trp_task*, const trp_value* values, trp_config** out, trp_error* error) {
      return Guard(error, [&] {
        auto config = std::make_unique<Config<Env>>();
        OptionParser parser(values);
        config->options.Visit(parser);
        if constexpr (requires { config->options.Open(); }) config->options.Open();
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
        Row row(nullptr, outputs);
        Cast(env)->env.Reset(row);
      });
    }
    static int Step(trp_env* env, const void* const* actions, void* const* outputs, trp_step_result* result,
                    trp_error* error) {
      return Guard(error, [&] {
        Row row(actions, outputs);
        const Outcome outcome = Cast(env)->env.Step(row);
        const int reward = Cast(env)->config->implied_reward;
        if (reward >= 0) *row.Out<float>(reward) = static_cast<float>(outcome.reward);
        result->terminated = outcome.terminated;
        result->truncated = outcome.truncated;
      });
    }
    static int RenderSize(const trp_env* env, std::int64_t* height, std::int64_t* width, trp_error* error) {
      return Guard(error, [&] {
        const ImageSize size = reinterpret_cast<const Instance*>(env)->env.RenderSize();
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
        StateReader reader(bytes, size);
        Cast(env)->env.VisitState(reader);
        if (!reader.finished()) throw InvalidArgument("the saved state is too long for this task");
      });
    }
  };

  // All tasks of this library.
  class Registry {
   public:
    static Registry& Get() {
      static Registry registry;
      return registry;
    }

    template <class Env>
    void Add(const TaskInfo& info) {
      auto& entry = entries_.emplace_back();
      entry.info = info;
      typename Env::Options defaults;
      defaults.Visit(entry.options);
      using A = Adapter<Env>;
      trp_task& task = entry.task;
      task.struct_size = sizeof(trp_task);
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
      tasks_.push_back(&task);
    }

    const trp_plugin* Describe(const char* family, const char* version) {
      plugin_ = {
          TRP_ABI_VERSION, sizeof(trp_plugin), family, version, static_cast<std::int64_t>(tasks_.size()),
          tasks_.data()};
      return &plugin_;
    }

   private:
    struct Entry {
      TaskInfo info;
      OptionDeclarer options;
      trp_task task{};
    };
    std::deque<Entry> entries_;
    std::vector<const trp_task*> tasks_;
    trp_plugin plugin_{};
  };

  }  // namespace internal

  // Adds a task to this library; the value has no meaning but to initialise a global.
  template <class Env>
  bool Register(const TaskInfo& info) {
    internal::Registry::Get().Add<Env>(info);
    return true;
  }

}  // namespace torchrl_pool

#define TORCHRL_POOL_PLUGIN(family, version)                                                            \
  extern "C" __attribute__((visibility("default"))) const trp_plugin* torchrl_pool_plugin(trp_error*) { \
    return ::torchrl_pool::internal::Registry::Get().Describe(family, version);                         \
  }

#endif  // TORCHRL_POOL_ENV_H_
