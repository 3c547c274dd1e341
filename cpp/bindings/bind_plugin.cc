// Plugins, their tasks and options, and configurations of tasks.
#include <pthread.h>
#include <pybind11/stl.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <future>
#include <memory>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "constructor.h"
#include "cpu.h"
#include "dtype.h"
#include "errors.h"
#include "gil.h"
#include "layout.h"
#include "module.h"
#include "plugin.h"

namespace py = pybind11;

namespace torchrl_pool::bindings {
namespace {

using core::Config;
using core::OptionValue;
using core::Plugin;
using core::Spec;

const char* TypeName(int type) {
  constexpr const char* kNames[] = {"bool",       "int",        "float",          "str",     "int_list",
                                    "float_list", "int_or_str", "float_list_map", "str_list"};
  return kNames[type];
}

py::object FromValue(const trp_value& value) {
  if (value.is_none) return py::none();
  const auto list = [&](const auto* items) {
    py::list out;
    for (std::int64_t i = 0; i < value.count; ++i) out.append(items[i]);
    return py::object(out);
  };
  switch (value.type) {
    case TRP_TYPE_BOOL:
      return py::bool_(value.ints[0] != 0);
    case TRP_TYPE_INT:
      return py::int_(value.ints[0]);
    case TRP_TYPE_FLOAT:
      return py::float_(value.floats[0]);
    case TRP_TYPE_STRING:
      return py::str(value.string);
    case TRP_TYPE_INT_LIST:
      return list(value.ints);
    case TRP_TYPE_INT_OR_STRING:
      return value.string ? py::object(py::str(value.string)) : py::int_(value.ints[0]);
    case TRP_TYPE_STRING_LIST: {
      py::list strings;
      for (std::int64_t i = 0; i < value.count; ++i) strings.append(py::str(value.entries[i].key));
      return strings;
    }
    case TRP_TYPE_FLOAT_LIST_MAP: {
      py::dict map;
      for (std::int64_t i = 0; i < value.count; ++i) {
        const trp_entry& entry = value.entries[i];
        map[entry.key] = std::vector<double>(entry.numbers, entry.numbers + entry.count);
      }
      return map;
    }
    default:
      return list(value.floats);
  }
}

py::dict FromOption(const trp_option& option) {
  py::list choices;
  for (std::int64_t i = 0; i < option.num_choices; ++i) choices.append(FromValue(option.choices[i]));
  py::dict out;
  out["name"] = option.name;
  out["help"] = option.help ? option.help : "";
  out["type"] = TypeName(option.default_value.type);
  out["default"] = FromValue(option.default_value);
  out["nullable"] = option.nullable != 0;
  out["choices"] = choices;
  out["minimum"] = option.minimum;
  out["maximum"] = option.maximum;
  out["fixed_count"] = option.fixed_count;
  return out;
}

py::dict FromTask(const trp_task& task) {
  py::list options, reset_options;
  for (std::int64_t i = 0; i < task.num_options; ++i) options.append(FromOption(task.options[i]));
  for (const trp_option& option : core::ResetOptionsOf(task)) reset_options.append(FromOption(option));
  py::dict out;
  out["id"] = task.id;
  out["description"] = task.description ? task.description : "";
  out["max_episode_steps"] =
      task.max_episode_steps > 0 ? py::object(py::int_(task.max_episode_steps)) : py::none();
  out["reward_threshold"] =
      std::isnan(task.reward_threshold) ? py::object(py::none()) : py::float_(task.reward_threshold);
  out["options"] = options;
  out["reset_options"] = reset_options;
  out["can_render"] = task.render != nullptr;
  out["can_save"] = task.save != nullptr && task.load != nullptr;
  return out;
}

OptionValue ToValue(const py::handle& value, trp_type type) {
  if (value.is_none()) return std::monostate{};
  switch (type) {
    case TRP_TYPE_BOOL:
      return value.cast<bool>();
    case TRP_TYPE_INT:
      return value.cast<std::int64_t>();
    case TRP_TYPE_FLOAT:
      return value.cast<double>();
    case TRP_TYPE_STRING:
      return value.cast<std::string>();
    case TRP_TYPE_INT_LIST:
      return value.cast<std::vector<std::int64_t>>();
    case TRP_TYPE_INT_OR_STRING:
      if (py::isinstance<py::str>(value)) return value.cast<std::string>();
      return value.cast<std::int64_t>();
    case TRP_TYPE_FLOAT_LIST_MAP:
      return value.cast<std::map<std::string, std::vector<double>>>();
    case TRP_TYPE_STRING_LIST:
      return value.cast<std::vector<std::string>>();
    default:
      return value.cast<std::vector<double>>();
  }
}

// Threads that open tasks, perhaps for somebody who no longer waits.
std::atomic<int> num_opening{0};
// At the end of the interpreter they are waited for, though not for ever: they use what ends next.
constexpr auto kLongestOpening = std::chrono::seconds(10);

void WaitForOpening() {
  const GilReleased released;
  const auto end = std::chrono::steady_clock::now() + kLongestOpening;
  while (num_opening > 0 && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

// Opening a task may take seconds: on a thread of its own, so that Python goes on meanwhile and this one can
// be interrupted. Then that thread comes to its end alone.
std::shared_ptr<Config> OpenConfig(const std::shared_ptr<Plugin>& plugin, const trp_task& task,
                                   std::vector<OptionValue> values) {
  using Opened = std::shared_ptr<Config>;
  std::promise<Opened> promise;
  std::future<Opened> opened = promise.get_future();
  const GilReleased released;
  const auto open = [plugin, &task, values = std::move(values)](std::promise<Opened> result) {
    try {
      result.set_value(std::make_shared<Config>(plugin, task, values));
    } catch (...) {
      result.set_exception(std::current_exception());
    }
    --num_opening;
  };
  ++num_opening;
  try {
    std::thread(open, std::move(promise)).detach();
  } catch (const std::system_error& error) {
    --num_opening;
    throw core::PoolError(std::string("cannot start a thread that opens the task: ") + error.what());
  } catch (...) {
    --num_opening;
    throw;
  }
  while (opened.wait_for(core::kInterruptPeriod) != std::future_status::ready) {
    if (Interrupted()) throw core::Interrupted();
  }
  return opened.get();
}

}  // namespace

void InitPlugin(py::module_& m) {
  m.attr("ABI_VERSION") = TRP_ABI_VERSION;
  py::module_::import("atexit").attr("register")(py::cpp_function(&WaitForOpening));
  pthread_atfork(nullptr, nullptr, [] { num_opening = 0; });  // a child has none of them

  m.def("available_cpus", py::overload_cast<>(&core::AvailableCpus),
        "Processors that this process may use: affinity mask and cgroup quota.");

  py::class_<Spec>(m, "Spec", "One tensor of an env, without the batch dimension.")
      .def_readonly("name", &Spec::name)
      .def_readonly("help", &Spec::help)
      .def_property_readonly("role", [](const Spec& spec) { return kRoleNames[spec.role]; })
      .def_property_readonly("dtype", [](const Spec& spec) { return core::kDtypes[spec.dtype].name; })
      .def_readonly("shape", &Spec::shape)
      .def_readonly("low", &Spec::low)
      .def_readonly("high", &Spec::high)
      .def_readonly("categories", &Spec::categories)
      .def_readonly("one_hot", &Spec::one_hot)
      .def_property_readonly("choices", &Spec::Choices)
      .def_property_readonly("one_hot_shape", &Spec::OneHotShape);

  py::class_<Plugin, std::shared_ptr<Plugin>>(m, "Plugin", "A loaded plugin.")
      .def_property_readonly("path", &Plugin::path)
      .def_property_readonly("family", &Plugin::family)
      .def_property_readonly("version", &Plugin::version)
      .def_property_readonly("tasks",
                             [](const Plugin& plugin) {
                               py::list tasks;
                               for (const trp_task* task : plugin.tasks()) tasks.append(FromTask(*task));
                               return tasks;
                             })
      .def_property_readonly("packages",
                             [](const Plugin& plugin) {
                               std::vector<std::pair<std::string, std::optional<std::string>>> packages;
                               for (const trp_package& package : plugin.packages()) {
                                 packages.emplace_back(package.name, std::nullopt);
                                 if (package.version) packages.back().second = package.version;
                               }
                               return packages;
                             })
      .def("locate", &Plugin::Locate, py::arg("folders"), "Tells the folder of each package.");

  m.def(
      "load_plugin",
      [](const std::string& path) {
        std::optional<GilReleased> released(std::in_place);
        auto plugin = std::const_pointer_cast<Plugin>(Plugin::Load(path));
        released.reset();
        return Object(std::move(plugin));
      },
      py::arg("path"));

  py::class_<core::LayoutOptions>(m, "LayoutOptions", "Which tensors a batch has, and in which form.")
      .def("__init__",
           Constructor(+[](std::vector<std::string> info_keys, bool one_hot,
                           const std::optional<std::string>& obs_dtype, bool from_pixels, bool pixels_only,
                           bool refuse_nan, bool strict_actions) {
             std::optional<trp_dtype> dtype;
             if (obs_dtype) dtype = *obs_dtype == "float32" ? TRP_FLOAT32 : TRP_FLOAT64;
             return std::make_unique<core::LayoutOptions>(
                 core::LayoutOptions{.info_keys = std::move(info_keys),
                                     .one_hot = one_hot,
                                     .obs_dtype = dtype,
                                     .from_pixels = from_pixels,
                                     .pixels_only = pixels_only,
                                     .refuse_nan = refuse_nan,
                                     .strict_actions = strict_actions});
           }),
           kConstructs, py::kw_only(), py::arg("info_keys"), py::arg("one_hot"), py::arg("obs_dtype"),
           py::arg("from_pixels"), py::arg("pixels_only"), py::arg("refuse_nan"), py::arg("strict_actions"));

  py::class_<Config, std::shared_ptr<Config>>(m, "Config", "One configuration of a task.")
      .def("__init__",
           Constructor(
               +[](const std::shared_ptr<Plugin>& plugin, const std::string& id, const py::list& values) {
                 const trp_task& task = plugin->task(id);
                 std::vector<OptionValue> converted;
                 for (std::size_t i = 0; i < values.size() && i < static_cast<std::size_t>(task.num_options);
                      ++i) {
                   converted.push_back(
                       ToValue(values[i], static_cast<trp_type>(task.options[i].default_value.type)));
                 }
                 return OpenConfig(plugin, task, std::move(converted));
               }),
           kConstructs, py::arg("plugin"), py::arg("task_id"), py::arg("values"))
      .def_property_readonly("specs", &Config::specs)
      .def(
          "outputs",
          [](const Config& config, const core::LayoutOptions& options) {
            std::vector<Spec> specs;
            const core::Layout layout(config, options);
            for (const auto& column : layout.outputs) specs.push_back(column.spec);
            return specs;
          },
          py::arg("layout"), "What a pool with this layout writes, in the order of its columns.")
      .def("mismatch", &core::Mismatch, py::arg("other"),
           "Why two configurations cannot share a pool; empty where they can.")
      .def_property_readonly("native_keys", &core::NativeKeys);

  py::class_<core::ResetOptions, std::shared_ptr<core::ResetOptions>>(
      m, "ResetOptions", "What a caller chose for one reset of envs of a configuration.")
      .def("__init__", Constructor(+[](const std::shared_ptr<Config>& config, const py::dict& chosen) {
             std::vector<std::optional<OptionValue>> values;
             for (const trp_option& option : core::ResetOptionsOf(config->task())) {
               const auto type = static_cast<trp_type>(option.default_value.type);
               values.emplace_back();
               if (chosen.contains(option.name)) values.back() = ToValue(chosen[option.name], type);
             }
             return std::make_shared<core::ResetOptions>(config, values);
           }),
           kConstructs, py::arg("config"), py::arg("chosen"));
}

}  // namespace torchrl_pool::bindings
