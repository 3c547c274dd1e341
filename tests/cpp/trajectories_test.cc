// The families that need no other binary give the bits that they give elsewhere: on Arm those of x86,
// whatever the compiler. tests/cpp/trajectories.txt has a number for each task, made of all that two envs
// write in some hundred steps; `TORCHRL_POOL_RECORD=1 trajectories_test` writes it anew, after a change that
// is meant.
#include <dlfcn.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "check.h"
#include "torchrl_pool/abi.h"

namespace {

constexpr int kSteps = 120;
constexpr std::uint32_t kSeeds[] = {1, 20231};
constexpr const char* kFile = TEST_SOURCES "/trajectories.txt";
constexpr std::size_t kBytes[] = {1, 1, 1, 2, 4, 8, 4, 8, 2, 2, 4, 8};  // by trp_dtype

std::size_t NumElements(const trp_spec& spec) {
  std::size_t count = 1;
  for (int i = 0; i < spec.ndim; ++i) count *= static_cast<std::size_t>(spec.shape[i]);
  return count;
}

// FNV-1a.
class Hash {
 public:
  void Add(const void* data, std::size_t size) {
    const auto* bytes = static_cast<const std::uint8_t*>(data);
    for (std::size_t i = 0; i < size; ++i) value_ = (value_ ^ bytes[i]) * 0x100000001b3;
  }
  std::uint64_t value() const { return value_; }

 private:
  std::uint64_t value_ = 0xcbf29ce484222325;
};

// SplitMix64: the same numbers everywhere, and no standard library's.
class Draws {
 public:
  explicit Draws(std::uint64_t seed) : state_(seed) {}

  std::uint64_t Below(std::uint64_t bound) { return Next() % bound; }
  double Unit() { return static_cast<double>(Next() >> 11) * 0x1p-53; }

 private:
  std::uint64_t Next() {
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }

  std::uint64_t state_;
};

void Call(int status, const trp_error& error) {
  if (status != TRP_OK) throw std::runtime_error(error.message);
}

template <class T>
void Put(std::vector<std::uint8_t>& row, std::size_t element, T value) {
  std::memcpy(row.data() + element * sizeof(T), &value, sizeof(T));
}

void PutNumber(std::vector<std::uint8_t>& row, const trp_spec& spec, std::size_t element, double value) {
  switch (spec.dtype) {
    case TRP_FLOAT32:
      return Put(row, element, static_cast<float>(value));
    case TRP_FLOAT64:
      return Put(row, element, value);
    case TRP_INT64:
      return Put(row, element, static_cast<std::int64_t>(value));
    case TRP_INT32:
      return Put(row, element, static_cast<std::int32_t>(value));
    case TRP_INT8:
      return Put(row, element, static_cast<std::int8_t>(value));
    default:
      throw std::runtime_error("an action of another dtype");
  }
}

// One env of a task, and the memory of its rows.
class Env {
 public:
  Env(const trp_task& task, const trp_config* config) : task_(task) {
    const trp_spec* specs = nullptr;
    const std::int64_t count = task.specs(config, &specs);
    for (std::int64_t i = 0; i < count; ++i) {
      auto& rows = specs[i].role == TRP_ACTION ? actions_ : outputs_;
      rows.emplace_back(NumElements(specs[i]) * kBytes[specs[i].dtype]);
      if (specs[i].role == TRP_ACTION) action_specs_.push_back(specs[i]);
    }
    for (auto& row : outputs_) output_pointers_.push_back(row.data());
    for (auto& row : actions_) action_pointers_.push_back(row.data());
    Call(task.create(config, &env_, &error_), error_);
  }
  Env(const Env&) = delete;
  Env& operator=(const Env&) = delete;
  ~Env() { task_.destroy(env_); }

  void Run(std::uint32_t seed, Hash& hash) {
    Draws draws(seed);
    Call(task_.seed(env_, &seed, 1, &error_), error_);
    Reset(hash);
    for (int step = 0; step < kSteps; ++step) {
      for (std::size_t i = 0; i < actions_.size(); ++i) Draw(draws, action_specs_[i], actions_[i]);
      trp_step_result result{};
      Call(task_.step(env_, action_pointers_.data(), output_pointers_.data(), &result, &error_), error_);
      AddOutputs(hash);
      hash.Add(&result.terminated, 1);
      hash.Add(&result.truncated, 1);
      if (result.reward == result.reward) hash.Add(&result.reward, sizeof(result.reward));
      if (result.terminated || result.truncated) Reset(hash);
    }
  }

 private:
  void Reset(Hash& hash) {
    Call(task_.reset(env_, output_pointers_.data(), &error_), error_);
    AddOutputs(hash);
  }

  void AddOutputs(Hash& hash) const {
    for (const auto& row : outputs_) hash.Add(row.data(), row.size());
  }

  static void Draw(Draws& draws, const trp_spec& spec, std::vector<std::uint8_t>& row) {
    const std::size_t count = NumElements(spec);
    for (std::size_t i = 0; i < count; ++i) {
      if (spec.num_categories > 0) {
        const auto bound = spec.categories[spec.num_categories == 1 ? 0 : i];
        PutNumber(row, spec, i, static_cast<double>(draws.Below(static_cast<std::uint64_t>(bound))));
        continue;
      }
      const double low = spec.low ? std::max(spec.low[i], -1e6) : -1.0;
      const double high = spec.high ? std::min(spec.high[i], 1e6) : 1.0;
      PutNumber(row, spec, i, low + draws.Unit() * (high - low));
    }
  }

  const trp_task& task_;
  trp_env* env_ = nullptr;
  std::vector<trp_spec> action_specs_;
  std::vector<std::vector<std::uint8_t>> actions_, outputs_;
  std::vector<void*> output_pointers_;
  std::vector<const void*> action_pointers_;
  trp_error error_{};
};

std::uint64_t HashOf(const trp_task& task) {
  std::vector<trp_value> values;
  for (std::int64_t i = 0; i < task.num_options; ++i) values.push_back(task.options[i].default_value);
  trp_error error{};
  trp_config* config = nullptr;
  Call(task.open(&task, values.data(), &config, &error), error);
  const std::unique_ptr<trp_config, void (*)(trp_config*)> closed(config, task.close);
  Hash hash;
  for (const std::uint32_t seed : kSeeds) Env(task, config).Run(seed, hash);
  return hash.value();
}

std::map<std::string, std::string> HashesOf(const std::string& plugin_path) {
  void* library = dlopen(plugin_path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) throw std::runtime_error(dlerror());
  trp_error error{};
  const trp_plugin* plugin = reinterpret_cast<trp_entry_point>(dlsym(library, TRP_ENTRY_POINT))(&error);
  if (!plugin) throw std::runtime_error(error.message);
  // Where there is no NumPy, sums are plain, as on any processor.
  for (std::int64_t i = 0; i < plugin->num_packages; ++i) plugin->locate(i, "/nowhere");
  std::map<std::string, std::string> hashes;
  for (std::int64_t i = 0; i < plugin->num_tasks; ++i) {
    char text[17];
    std::snprintf(text, sizeof(text), "%016llx", static_cast<unsigned long long>(HashOf(*plugin->tasks[i])));
    hashes[plugin->tasks[i]->id] = text;
  }
  return hashes;
}

std::map<std::string, std::string> Recorded() {
  std::map<std::string, std::string> hashes;
  std::ifstream file(kFile);
  std::string task, hash;
  while (file >> task >> hash) hashes[task] = hash;
  return hashes;
}

TEST(TrajectoriesAreThoseThatWereRecorded) {
  const bool records = std::getenv("TORCHRL_POOL_RECORD") != nullptr;
  auto recorded = Recorded();
  std::string different;
  for (const char* plugin : {TEST_FAMILIES}) {
    for (const auto& [task, hash] : HashesOf(plugin)) {
      if (records) {
        recorded[task] = hash;
      } else if (recorded[task] != hash) {
        different += " " + task;
      }
    }
  }
  CHECK_EQ(different, std::string());
  if (!records) return;
  std::ofstream file(kFile);
  for (const auto& [task, hash] : recorded) file << task << " " << hash << "\n";
}

}  // namespace
