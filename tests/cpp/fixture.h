// Plugins, configurations and batch memory for tests of the core.
#ifndef TORCHRL_POOL_TESTS_FIXTURE_H_
#define TORCHRL_POOL_TESTS_FIXTURE_H_

#include <dlfcn.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "check.h"
#include "counter.h"
#include "layout.h"
#include "plugin.h"

namespace torchrl_pool::test {

inline std::string PluginPath(const std::string& name) { return TEST_PLUGINS "/" + name + ".so"; }

inline std::shared_ptr<const core::Plugin> LoadPlugin(const std::string& name) {
  return core::Plugin::Load(PluginPath(name));
}

inline Probe& TheProbe() {
  static Probe* probe = [] {
    void* library = dlopen(PluginPath("test_plugin").c_str(), RTLD_NOW | RTLD_LOCAL);
    return reinterpret_cast<Probe* (*)()>(dlsym(library, kProbeSymbol))();
  }();
  return *probe;
}

using Table = std::map<std::string, std::vector<double>>;

inline core::OptionValue DefaultOf(const trp_option& option) {
  const trp_value& value = option.default_value;
  if (value.is_none) return std::monostate();
  switch (static_cast<trp_type>(value.type)) {
    case TRP_TYPE_BOOL:
      return value.ints[0] != 0;
    case TRP_TYPE_INT:
      return value.ints[0];
    case TRP_TYPE_FLOAT:
      return value.floats[0];
    case TRP_TYPE_STRING:
      return std::string(value.string);
    case TRP_TYPE_INT_LIST:
      return std::vector<std::int64_t>(value.ints, value.ints + value.count);
    case TRP_TYPE_FLOAT_LIST:
      return std::vector<double>(value.floats, value.floats + value.count);
    case TRP_TYPE_INT_OR_STRING:
      if (value.string) return std::string(value.string);
      return value.ints[0];
    case TRP_TYPE_FLOAT_LIST_MAP: {
      Table table;
      for (std::int64_t i = 0; i < value.count; ++i) {
        const trp_entry& entry = value.entries[i];
        table[entry.key].assign(entry.numbers, entry.numbers + entry.count);
      }
      return table;
    }
    case TRP_TYPE_STRING_LIST: {
      std::vector<std::string> strings;
      for (std::int64_t i = 0; i < value.count; ++i) strings.emplace_back(value.entries[i].key);
      return strings;
    }
  }
  return std::monostate();
}

using Options = std::vector<std::pair<std::string, core::OptionValue>>;

// A configuration with these options; the others keep their defaults.
inline std::shared_ptr<const core::Config> MakeConfig(const std::string& plugin_name, const std::string& id,
                                                      const Options& options = {}) {
  const auto plugin = LoadPlugin(plugin_name);
  const trp_task& task = plugin->task(id);
  std::vector<core::OptionValue> values;
  std::size_t known = 0;
  for (std::int64_t i = 0; i < task.num_options; ++i) {
    values.push_back(DefaultOf(task.options[i]));
    for (const auto& [name, value] : options) {
      if (name != task.options[i].name) continue;
      const bool one_type =
          !task.options[i].nullable && task.options[i].default_value.type != TRP_TYPE_INT_OR_STRING;
      if (one_type) CHECK_EQ(value.index(), values.back().index());
      values.back() = value;
      ++known;
    }
  }
  CHECK_EQ(known, options.size());
  return std::make_shared<core::Config>(plugin, task, values);
}

inline std::shared_ptr<const core::Config> CounterConfig(const Options& options = {}) {
  return MakeConfig("test_plugin", "Counter-v0", options);
}

inline std::shared_ptr<const core::Config> KindsConfig(const Options& options = {}) {
  return MakeConfig("test_plugin", "Kinds-v0", options);
}

// The memory behind a batch: per column a block of its own, whose rows lie `padding` bytes apart.
class Tensors {
 public:
  // What memory holds that nobody has written.
  static constexpr std::byte kUntouched{0xa5};

  template <class Columns>
  Tensors(const Columns& columns, std::size_t rows, std::size_t padding = 0) : rows_(rows) {
    for (const auto& column : columns) {
      names_.push_back(column.spec.name);
      row_bytes_.push_back(column.row_bytes);
      strides_.push_back(column.row_bytes + padding);
      is_packed_ = padding == 0;
      blocks_.emplace_back(rows * strides_.back() / sizeof(double) + 1);  // aligned for every dtype
    }
    Clear();
  }

  void Clear() {
    for (auto& block : blocks_) std::memset(block.data(), int{0xa5}, block.size() * sizeof(double));
  }

  void BindTo(core::Batch& batch) {
    batch.is_packed = is_packed_;
    for (std::size_t i = 0; i < blocks_.size(); ++i) {
      batch.base[i] = reinterpret_cast<std::byte*>(blocks_[i].data());
      batch.stride[i] = strides_[i];
      batch.row_bytes[i] = row_bytes_[i];
    }
  }

  std::size_t Column(const std::string& name) const {
    for (std::size_t i = 0; i < names_.size(); ++i) {
      if (names_[i] == name) return i;
    }
    Fail(__FILE__, __LINE__, "no column " + name);
  }

  const std::byte* Row(std::size_t column, std::size_t row) const {
    return reinterpret_cast<const std::byte*>(blocks_[column].data()) + row * strides_[column];
  }
  template <class T>
  T Get(const std::string& name, std::size_t row, std::size_t element = 0) const {
    T value;
    std::memcpy(&value, Row(Column(name), row) + element * sizeof value, sizeof value);
    return value;
  }
  template <class T>
  void Set(const std::string& name, std::size_t row, std::size_t element, T value) {
    std::memcpy(const_cast<std::byte*>(Row(Column(name), row)) + element * sizeof value, &value,
                sizeof value);
  }
  template <class T>
  std::vector<T> Values(const std::string& name, std::size_t row) const {
    std::vector<T> values(row_bytes_[Column(name)] / sizeof(T));
    std::memcpy(values.data(), Row(Column(name), row), values.size() * sizeof(T));
    return values;
  }

  // Whether a row's bytes of a column all have this value.
  bool IsFilledWith(std::byte value, std::size_t column, std::size_t row) const {
    const std::byte* bytes = Row(column, row);
    for (std::size_t i = 0; i < row_bytes_[column]; ++i) {
      if (bytes[i] != value) return false;
    }
    return true;
  }
  bool IsUntouched(std::size_t row) const {
    for (std::size_t i = 0; i < blocks_.size(); ++i) {
      if (!IsFilledWith(kUntouched, i, row)) return false;
    }
    return true;
  }
  bool IsZero(std::size_t row) const {
    for (std::size_t i = 0; i < blocks_.size(); ++i) {
      if (!IsFilledWith(std::byte{0}, i, row)) return false;
    }
    return true;
  }
  bool PaddingIsUntouched() const {
    for (std::size_t i = 0; i < blocks_.size(); ++i) {
      for (std::size_t row = 0; row < rows_; ++row) {
        for (std::size_t k = row_bytes_[i]; k < strides_[i]; ++k) {
          if (Row(i, row)[k] != kUntouched) return false;
        }
      }
    }
    return true;
  }

 private:
  std::size_t rows_;
  std::vector<std::string> names_;
  std::vector<std::size_t> row_bytes_, strides_;
  bool is_packed_ = true;
  std::vector<std::vector<double>> blocks_;
};

inline core::Batch MakeBatch(std::size_t columns) {
  core::Batch batch;
  batch.base.assign(columns, nullptr);
  batch.stride.assign(columns, 0);
  batch.row_bytes.assign(columns, 0);
  return batch;
}

}  // namespace torchrl_pool::test

#endif  // TORCHRL_POOL_TESTS_FIXTURE_H_
