#include "plugin.h"

#include <dlfcn.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <numeric>
#include <set>

#include "dtype.h"
#include "errors.h"

namespace torchrl_pool::core {
namespace {

// Of one entry of one env: far below what sizes in bytes could not count, far above what memory holds.
constexpr std::int64_t kMostElements = std::int64_t{1} << 40;
constexpr std::int32_t kMostDimensions = 64;  // as torch has it

// A status of one of the plugin's functions, as an exception.
void CheckStatus(int status, const std::string& id, const trp_error& error) {
  if (status != TRP_OK) throw StatusError(static_cast<trp_status>(status), id + ": " + MessageOf(error));
}

// Whether a value points to what its type says, of a type that there is.
bool IsWhole(const trp_value& value) {
  if (value.is_none) return true;
  const auto has_entries = [&](const auto& is_fine) {
    return value.count == 0 || (value.count > 0 && value.entries &&
                                std::all_of(value.entries, value.entries + value.count, is_fine));
  };
  switch (value.type) {
    case TRP_TYPE_BOOL:
    case TRP_TYPE_INT:
      return value.ints;
    case TRP_TYPE_FLOAT:
      return value.floats;
    case TRP_TYPE_STRING:
      return value.string;
    case TRP_TYPE_INT_OR_STRING:
      return value.string || value.ints;
    case TRP_TYPE_INT_LIST:
      return value.count == 0 || (value.count > 0 && value.ints);
    case TRP_TYPE_FLOAT_LIST:
      return value.count == 0 || (value.count > 0 && value.floats);
    case TRP_TYPE_STRING_LIST:
      return has_entries([](const trp_entry& entry) { return entry.key != nullptr; });
    default:
      return has_entries([](const trp_entry& entry) {
        return entry.key && (entry.count == 0 || (entry.count > 0 && entry.numbers));
      });
  }
}

void CheckOptions(const trp_option* options, std::int64_t count, const std::string& id, const auto& fail) {
  if (count < 0 || (count > 0 && !options)) fail("task '" + id + "' has no table of options");
  for (std::int64_t i = 0; i < count; ++i) {
    const trp_option& option = options[i];
    if (!option.name) fail("an option of task '" + id + "' has no name");
    const std::string name = "option '" + std::string(option.name) + "' of task '" + id + "' ";
    const auto check = [&](const trp_value& value, const std::string& which) {
      if (value.type < TRP_TYPE_BOOL || value.type > TRP_TYPE_STRING_LIST) {
        fail(name + "has unknown type " + std::to_string(value.type));
      }
      if (!IsWhole(value)) fail(name + "has " + which + " that points to nothing");
    };
    check(option.default_value, "a default");
    if (option.num_choices < 0 || (option.num_choices > 0 && !option.choices)) {
      fail(name + "has no table of choices");
    }
    for (std::int64_t k = 0; k < option.num_choices; ++k) check(option.choices[k], "a choice");
  }
}

void CheckTask(const std::string& path, const trp_task* task) {
  const auto fail = [&](const std::string& what) {
    throw StatusError(TRP_INVALID_ARGUMENT, path + " is not a usable plugin: " + what);
  };
  if (!task || !task->id) fail("one of its tasks has no id");
  const std::string id = task->id;
  const std::pair<const char*, bool> required[] = {
      {"open", task->open},       {"close", task->close}, {"specs", task->specs}, {"create", task->create},
      {"destroy", task->destroy}, {"seed", task->seed},   {"reset", task->reset}, {"step", task->step},
  };
  for (const auto& [name, present] : required) {
    if (!present) fail("task '" + id + "' lacks the required function '" + name + "'");
  }
  CheckOptions(task->options, task->num_options, id, fail);
  if (task->num_reset_options == 0) return;
  if (task->num_reset_options < 0 || !task->reset_options || !task->open_reset || !task->close_reset ||
      !task->reset_with) {
    fail("task '" + id + "' has reset options, but not all that belongs to them");
  }
  CheckOptions(task->reset_options, task->num_reset_options, id, fail);
}

// The parts of an entry's name are keys of nested tensordicts, some of which TorchRL has for itself.
void CheckName(const std::string& name, const std::set<std::string>& names, const auto& fail) {
  for (std::size_t begin = 0, end = 0; end != std::string::npos; begin = end + 1) {
    end = name.find('/', begin);
    if (name.substr(begin, end - begin).empty()) fail("'" + name + "' has an empty part");
    if (end != std::string::npos && names.contains(name.substr(0, end))) {
      fail("'" + name + "' lies below the entry '" + name.substr(0, end) + "'");
    }
  }
  const auto below = names.lower_bound(name + "/");
  if (below != names.end() && below->starts_with(name + "/")) {
    fail("'" + *below + "' lies below the entry '" + name + "'");
  }
  const std::string first = name.substr(0, name.find('/'));
  if (first == "next" || first == "_reset" || first == "_step" || first == "env_index") {
    fail("'" + name + "' is named as an entry of TorchRL's own");
  }
}

// An option's value in the ABI's form points to the value, and to what here is in another form.
struct RawValue {
  std::int64_t truth = 0;
  std::vector<trp_entry> entries;
};

trp_value ToValue(const OptionValue& value, const trp_option& option, RawValue* raw) {
  trp_value out{};
  out.type = option.default_value.type;
  out.count = 1;
  const auto set = [&](const auto& native) {
    using T = std::decay_t<decltype(native)>;
    if constexpr (std::is_same_v<T, std::monostate>) {
      out.is_none = 1;
      out.count = 0;
    } else if constexpr (std::is_same_v<T, bool>) {
      raw->truth = native;
      out.ints = &raw->truth;
    } else if constexpr (std::is_same_v<T, std::int64_t>) {
      out.ints = &native;
    } else if constexpr (std::is_same_v<T, double>) {
      out.floats = &native;
    } else if constexpr (std::is_same_v<T, std::string>) {
      out.string = native.c_str();
    } else {
      out.count = static_cast<std::int64_t>(native.size());
      if constexpr (std::is_same_v<T, std::vector<double>>) {
        out.floats = native.data();
      } else if constexpr (std::is_same_v<T, std::vector<std::int64_t>>) {
        out.ints = native.data();
      } else if constexpr (std::is_same_v<T, std::vector<std::string>>) {
        for (const auto& string : native) raw->entries.push_back({string.c_str(), 0, nullptr});
      } else {
        for (const auto& [key, numbers] : native) {
          raw->entries.push_back({key.c_str(), static_cast<std::int64_t>(numbers.size()), numbers.data()});
        }
      }
    }
  };
  std::visit(set, value);
  out.entries = raw->entries.data();
  return out;
}

}  // namespace

std::shared_ptr<const Plugin> Plugin::Load(const std::string& path) {
  // Closed again where it is of no use, so that a better one may be loaded from the same path.
  std::unique_ptr<void, int (*)(void*)> library(dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL), dlclose);
  if (!library) {
    throw StatusError(TRP_FILE_NOT_FOUND, "cannot load the plugin " + path + ": " + dlerror());
  }
  const auto entry = reinterpret_cast<trp_entry_point>(dlsym(library.get(), TRP_ENTRY_POINT));
  if (!entry) {
    throw StatusError(TRP_INVALID_ARGUMENT,
                      path + " is not a plugin: it does not export '" + TRP_ENTRY_POINT +
                          "'. One of its sources must end in TORCHRL_POOL_PLUGIN(\"family\", \"version\")");
  }
  trp_error error{};
  const trp_plugin* raw = entry(&error);
  if (!raw) {
    throw StatusError(TRP_RUNTIME_ERROR, "the plugin " + path + " did not start: " + MessageOf(error));
  }
  if (raw->abi_version != TRP_ABI_VERSION) {
    throw StatusError(TRP_INVALID_ARGUMENT, "the plugin " + path + " was built for ABI version " +
                                                std::to_string(raw->abi_version) +
                                                ", this torchrl_pool speaks version " +
                                                std::to_string(TRP_ABI_VERSION) + "; build it again");
  }
  const auto fail = [&](const std::string& what) {
    throw StatusError(TRP_INVALID_ARGUMENT, path + " is not a usable plugin: " + what);
  };
  if (!raw->family || !raw->version) fail("it names no family or no version");
  if (raw->num_tasks < 0 || (raw->num_tasks > 0 && !raw->tasks)) fail("it has no table of tasks");
  if (raw->num_packages < 0 || (raw->num_packages > 0 && (!raw->packages || !raw->locate))) {
    fail("it has no table of packages");
  }
  for (std::int64_t i = 0; i < raw->num_packages; ++i) {
    if (!raw->packages[i].name) fail("one of its packages has no name");
  }
  auto plugin = std::make_shared<Plugin>();
  plugin->path_ = path;
  plugin->plugin_ = raw;
  for (std::int64_t i = 0; i < raw->num_tasks; ++i) {
    CheckTask(path, raw->tasks[i]);
    for (const trp_task* other : plugin->tasks_) {
      if (std::string(other->id) == raw->tasks[i]->id) fail(std::string("two tasks are called ") + other->id);
    }
    plugin->tasks_.push_back(raw->tasks[i]);
  }
  (void)library.release();
  return plugin;
}

const trp_task& Plugin::task(const std::string& id) const {
  for (const trp_task* task : tasks_) {
    if (id == task->id) return *task;
  }
  throw StatusError(TRP_INVALID_ARGUMENT, "the plugin " + path_ + " has no task '" + id + "'");
}

std::vector<trp_package> Plugin::packages() const {
  return {plugin_->packages, plugin_->packages + plugin_->num_packages};
}

void Plugin::Locate(const std::vector<std::string>& folders) const {
  for (std::int64_t i = 0; i < plugin_->num_packages; ++i) {
    plugin_->locate(i, folders.at(static_cast<std::size_t>(i)).c_str());
  }
}

std::size_t Spec::size() const {
  return std::accumulate(shape.begin(), shape.end(), std::size_t{1}, std::multiplies<>());
}

std::size_t Spec::row_bytes() const { return size() * kDtypes[dtype].bytes; }

bool Spec::IsFlagOfAgents(std::string_view flag) const {
  return role == TRP_DONE && std::string_view(name).substr(name.find_last_of('/') + 1) == flag;
}

std::vector<std::int64_t> Spec::Choices() const {
  const auto is_first = [this](std::int64_t count) { return count == categories.front(); };
  if (categories.empty() || one_hot) return categories;
  if (std::all_of(categories.begin(), categories.end(), is_first)) return {categories.front()};
  for (std::size_t i = 0, width = static_cast<std::size_t>(shape.back()); i < categories.size(); ++i) {
    if (categories[i] != categories[i % width]) return categories;
  }
  return {categories.begin(), categories.begin() + shape.back()};
}

std::vector<std::int64_t> Spec::OneHotShape() const {
  const auto choices = Choices();
  auto out = shape;
  if (choices.empty() || one_hot) return out;
  if (choices.size() == 1) {
    out.push_back(choices.front());
    return out;
  }
  const bool are_unlike = choices.size() > static_cast<std::size_t>(shape.back());
  if (are_unlike) out.resize(1);  // rows of different widths stack in no other way
  out.back() = std::accumulate(choices.begin(), choices.end(), std::int64_t{0});
  return out;
}

Config::Config(std::shared_ptr<const void> plugin, const trp_task& task,
               const std::vector<OptionValue>& values)
    : plugin_(std::move(plugin)), task_(task), handle_(nullptr, task.close) {
  if (static_cast<std::int64_t>(values.size()) != task.num_options) {
    throw StatusError(TRP_INVALID_ARGUMENT, std::string("task '") + task.id + "' takes " +
                                                std::to_string(task.num_options) + " options, got " +
                                                std::to_string(values.size()));
  }
  std::vector<RawValue> storage(values.size());
  std::vector<trp_value> raw;
  for (std::size_t i = 0; i < values.size(); ++i) {
    raw.push_back(ToValue(values[i], task.options[i], &storage[i]));
  }
  trp_error error{};
  trp_config* handle = nullptr;
  CheckStatus(task.open(&task, raw.data(), &handle, &error), task.id, error);
  handle_.reset(handle);

  const trp_spec* spec = nullptr;
  const std::int64_t count = task.specs(handle, &spec);
  const auto fail = [&](const std::string& what) {
    throw StatusError(TRP_INVALID_ARGUMENT, std::string(task.id) + ": " + what);
  };
  if (count < 0 || (count > 0 && !spec))
    fail("its list of entries has " + std::to_string(count) + " of them");
  std::set<std::string> names = {"terminated", "truncated", "done"};
  for (const trp_spec* end = spec + count; spec != end; ++spec) {
    if (!spec->name) fail("an entry has no name");
    const std::string name = std::string("'") + spec->name + "' ";
    if (!names.insert(spec->name).second) fail(name + "is the name of two entries");
    CheckName(spec->name, names, fail);
    if (spec->role < TRP_ACTION || spec->role > TRP_DONE)
      fail(name + "has unknown role " + std::to_string(spec->role));
    if (spec->dtype < 0 || static_cast<std::size_t>(spec->dtype) >= std::size(kDtypes))
      fail(name + "has unknown dtype " + std::to_string(spec->dtype));
    if (spec->ndim < 0 || spec->num_categories < 0)
      fail(name + "has a negative number of dimensions or categories");
    if (spec->ndim > kMostDimensions) fail(name + "has too many dimensions");
    if ((spec->ndim > 0 && !spec->shape) || (spec->num_categories > 0 && !spec->categories))
      fail(name + "has dimensions or categories that point to nothing");
    std::int64_t size = 1;
    for (const std::int64_t extent : std::span(spec->shape, static_cast<std::size_t>(spec->ndim))) {
      if (extent < 0) fail(name + "has a negative extent");
      if (extent > 0 && size > kMostElements / extent) fail(name + "has too many elements");
      size *= extent;
    }
    Spec copy{spec->name,
              spec->help ? spec->help : "",
              static_cast<trp_role>(spec->role),
              static_cast<trp_dtype>(spec->dtype),
              {spec->shape, spec->shape + spec->ndim},
              {},
              {},
              {spec->categories, spec->categories + spec->num_categories}};
    if (spec->low) copy.low.assign(spec->low, spec->low + copy.size());
    if (spec->high) copy.high.assign(spec->high, spec->high + copy.size());
    if (IsFloat(copy.dtype)) {
      // A bound such as 0.4 must admit the float32 that is nearest to it.
      WithFloat(copy.dtype, [&](auto zero) {
        for (auto* bound : {&copy.low, &copy.high}) {
          for (double& value : *bound) value = static_cast<decltype(zero)>(value);
        }
      });
    }
    if (!copy.categories.empty() && (copy.dtype != TRP_INT64 || copy.categories.size() != copy.size()))
      fail("the discrete entry " + name + "must be int64 with as many numbers of categories as elements");
    for (const std::int64_t choices : copy.categories) {
      if (choices < 1) fail(name + "has a choice of nothing");
    }
    if (copy.role == TRP_DONE && copy.dtype != TRP_BOOL) fail("done flags must be bool");
    specs_.push_back(std::move(copy));
  }
}

std::pair<std::int64_t, std::int64_t> Config::RenderSize() const {
  if (!task_.render || !task_.render_size) {
    throw StatusError(TRP_UNSUPPORTED, std::string("task '") + task_.id + "' cannot be rendered");
  }
  std::int64_t height = 0, width = 0;
  trp_error error{};
  CheckStatus(task_.render_size(handle(), &height, &width, &error), task_.id, error);
  if (height < 0 || width < 0 || (height > 0 && width > kMostElements / 3 / height)) {
    throw StatusError(TRP_RUNTIME_ERROR, std::string("task '") + task_.id + "': its pictures have " +
                                             std::to_string(height) + " by " + std::to_string(width) +
                                             " pixels");
  }
  return {height, width};
}

std::span<const trp_option> ResetOptionsOf(const trp_task& task) {
  return {task.reset_options, static_cast<std::size_t>(task.num_reset_options)};
}

ResetOptions::ResetOptions(std::shared_ptr<const Config> config,
                           const std::vector<std::optional<OptionValue>>& values)
    : config_(std::move(config)), handle_(nullptr, nullptr) {
  const trp_task& task = config_->task();
  const auto options = ResetOptionsOf(task);
  const auto fail = [&](trp_status status, const std::string& what) {
    throw StatusError(status, std::string(task.id) + ": " + what);
  };
  if (options.empty()) fail(TRP_UNSUPPORTED, "it takes no reset options");
  if (values.size() != options.size()) {
    fail(TRP_INVALID_ARGUMENT, "it takes " + std::to_string(options.size()) + " reset options, got " +
                                   std::to_string(values.size()));
  }
  std::vector<RawValue> storage(values.size());
  std::vector<trp_value> raw(values.size());
  std::vector<const trp_value*> chosen(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (!values[i]) continue;
    raw[i] = ToValue(*values[i], options[i], &storage[i]);
    chosen[i] = &raw[i];
  }
  trp_error error{};
  trp_reset* handle = nullptr;
  CheckStatus(task.open_reset(config_->handle(), chosen.data(), &handle, &error), task.id, error);
  handle_ = {handle, task.close_reset};
}

}  // namespace torchrl_pool::core
