// A loaded plugin, its tasks, and one configuration of a task.
#ifndef TORCHRL_POOL_CORE_PLUGIN_H_
#define TORCHRL_POOL_CORE_PLUGIN_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "torchrl_pool/abi.h"

namespace torchrl_pool::core {

// A shared library that has been checked against the ABI. It stays loaded for the life of the process, since
// envs of it may live in any pool.
class Plugin {
 public:
  // Throws StatusError when the file cannot be loaded, is no plugin, has another ABI version, or lacks a
  // required function.
  static std::shared_ptr<const Plugin> Load(const std::string& path);

  const std::string& path() const { return path_; }
  std::string family() const { return plugin_->family; }
  std::string version() const { return plugin_->version; }
  const std::vector<const trp_task*>& tasks() const { return tasks_; }
  const trp_task& task(const std::string& id) const;

  // The Python packages that its tasks need, and where the caller found each of them.
  std::vector<trp_package> packages() const;
  void Locate(const std::vector<std::string>& folders) const;

 private:
  std::string path_;
  const trp_plugin* plugin_ = nullptr;
  std::vector<const trp_task*> tasks_;
};

// None, or a value of an option's type.
using OptionValue =
    std::variant<std::monostate, bool, std::int64_t, double, std::string, std::vector<std::int64_t>,
                 std::vector<double>, std::map<std::string, std::vector<double>>, std::vector<std::string>>;

struct Spec {
  std::string name, help;
  trp_role role;
  trp_dtype dtype;
  std::vector<std::int64_t> shape;
  std::vector<double> low, high;  // empty: unbounded
  std::vector<std::int64_t> categories;
  bool one_hot = false;  // `shape` is the one-hot vectors', `categories` the choices

  std::size_t size() const;       // elements
  std::size_t row_bytes() const;  // of one env
  // Whether it holds flags of agents with this name: "agents/done" those with the name "done".
  bool IsFlagOfAgents(std::string_view flag) const;
  // What one choice of a discrete entry is made from: one number where all choices are alike, one for each
  // element along the last dimension where rows are, else one for each element.
  std::vector<std::int64_t> Choices() const;
  // The shape of one-hot vectors: a dimension of their own where all choices are alike, else one after the
  // other along the last dimension (the only one, of unlike rows). In memory they lie in the choices' order.
  std::vector<std::int64_t> OneHotShape() const;
};

// One configuration of a task: what its envs share.
class Config {
 public:
  // values: one for each of the task's options, in order, already of the right type. Keeps alive what the
  // task belongs to. Throws StatusError.
  Config(std::shared_ptr<const void> plugin, const trp_task& task, const std::vector<OptionValue>& values);

  const trp_task& task() const { return task_; }
  const trp_config* handle() const { return handle_.get(); }
  const std::vector<Spec>& specs() const { return specs_; }
  // The rows of an entry are one-hot vectors, of these numbers of choices. The ABI has no word for that.
  void SetOneHot(std::size_t entry, std::vector<std::int64_t> categories) {
    specs_[entry].categories = std::move(categories);
    specs_[entry].one_hot = true;
  }
  std::pair<std::int64_t, std::int64_t> RenderSize() const;  // height, width; throws StatusError

 private:
  std::shared_ptr<const void> plugin_;  // or whatever else the task belongs to
  const trp_task& task_;
  std::unique_ptr<trp_config, void (*)(trp_config*)> handle_;
  std::vector<Spec> specs_;
};

// What a caller may choose for one reset; empty where a task offers nothing.
std::span<const trp_option> ResetOptionsOf(const trp_task& task);

// What a caller chose for one reset of envs of a configuration: checked, and then only read.
class ResetOptions {
 public:
  // values: one for each of the task's reset options, in order, already of the right type; none where the
  // caller chose none. Throws StatusError.
  ResetOptions(std::shared_ptr<const Config> config, const std::vector<std::optional<OptionValue>>& values);

  const trp_reset* handle() const { return handle_.get(); }

 private:
  std::shared_ptr<const Config> config_;
  std::unique_ptr<trp_reset, void (*)(trp_reset*)> handle_;
};

}  // namespace torchrl_pool::core

#endif  // TORCHRL_POOL_CORE_PLUGIN_H_
