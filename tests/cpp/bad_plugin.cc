// A plugin that breaks the ABI in the way that the environment variable TORCHRL_POOL_TEST_BAD names. Its
// entry point describes it anew each time that it is loaded.
#include <cstddef>
#include <cstdlib>
#include <cstring>

#include "torchrl_pool/abi.h"

namespace {

int Open(const trp_task*, const trp_value*, trp_config**, trp_error*) { return TRP_OK; }
void Close(trp_config*) {}
trp_spec spec;
int64_t num_specs = 0;
int64_t GetSpecs(const trp_config*, const trp_spec** specs) {
  *specs = &spec;
  return num_specs;
}
int Create(const trp_config*, trp_env**, trp_error*) { return TRP_OK; }
void Destroy(trp_env*) {}
int Seed(trp_env*, const uint32_t*, size_t, trp_error*) { return TRP_OK; }
int Reset(trp_env*, void* const*, trp_error*) { return TRP_OK; }
int Step(trp_env*, const void* const*, void* const*, trp_step_result*, trp_error*) { return TRP_OK; }
int64_t picture[2];
int RenderSize(const trp_config*, int64_t* height, int64_t* width, trp_error*) {
  *height = picture[0];
  *width = picture[1];
  return TRP_OK;
}
int Render(trp_env*, uint8_t*, trp_error*) { return TRP_OK; }
int OpenReset(const trp_config*, const trp_value* const*, trp_reset**, trp_error*) { return TRP_OK; }
void CloseReset(trp_reset*) {}
int ResetWith(trp_env*, const trp_reset*, void* const*, trp_error*) { return TRP_OK; }

trp_task task;
const trp_task* tasks[2];
trp_plugin plugin;

}  // namespace

extern "C" __attribute__((visibility("default"))) const trp_plugin* torchrl_pool_plugin(trp_error* error) {
  const char* kind = std::getenv("TORCHRL_POOL_TEST_BAD");
  const auto is = [kind](const char* name) { return kind && std::strcmp(kind, name) == 0; };
  if (is("refuses")) {
    std::strcpy(error->message, "no licence found");
    return nullptr;
  }
  if (is("long refusal")) {
    std::memset(error->message, 'x', sizeof error->message);  // no NUL at its end
    return nullptr;
  }
  task = {};
  task.id = "Bad-v0";
  task.description = "bad";
  task.open = is("open") ? nullptr : Open;
  task.close = is("close") ? nullptr : Close;
  task.specs = is("specs") ? nullptr : GetSpecs;
  task.create = is("create") ? nullptr : Create;
  task.destroy = is("destroy") ? nullptr : Destroy;
  task.seed = is("seed") ? nullptr : Seed;
  task.reset = is("reset") ? nullptr : Reset;
  task.step = is("step") ? nullptr : Step;
  if (is("no id")) task.id = nullptr;
  tasks[0] = tasks[1] = &task;
  plugin = {TRP_ABI_VERSION, "bad", "1", 1, tasks, 0, nullptr, nullptr};
  if (is("no task")) tasks[0] = nullptr;
  if (is("no tasks")) plugin.tasks = nullptr;
  if (is("negative tasks")) plugin.num_tasks = -1;
  if (is("twice")) plugin.num_tasks = 2;
  if (is("no family")) plugin.family = nullptr;
  if (is("no version")) plugin.version = nullptr;
  if (is("no packages")) plugin.num_packages = 1;
  if (is("negative packages")) plugin.num_packages = -1;
  if (is("packages without locate")) {
    static const trp_package package = {"some", nullptr};
    plugin.num_packages = 1;
    plugin.packages = &package;
  }
  if (is("version") || is("older version")) {
    plugin = {};
    plugin.abi_version = is("version") ? TRP_ABI_VERSION + 1 : TRP_ABI_VERSION - 1;
  }
  static trp_option option = {};
  option = {};
  option.name = "strange";
  option.default_value.type = is("negative option type") ? -1 : 99;
  if (is("unknown option type") || is("negative option type")) {
    task.options = &option;
    task.num_options = 1;
  }
  if (is("no table of options")) task.num_options = 1;
  if (is("negative options")) task.num_options = -1;
  if (std::strncmp(kind ? kind : "", "option ", 7) == 0) {  // of each type, a default that points to nothing
    task.options = &option;
    task.num_options = 1;
    option.default_value.type = std::atoi(kind + 7);
    option.default_value.count = 1;
  }
  static const trp_entry entry = {nullptr, 1, nullptr};
  static const int64_t number = 1;
  option.default_value.ints = &number;
  if (std::strncmp(kind ? kind : "", "option ", 7) == 0) option.default_value.ints = nullptr;
  if (is("no key in a list") || is("no name of an option") || is("a choice of nothing") ||
      is("no table of choices")) {
    task.options = &option;
    task.num_options = 1;
    option.default_value.type = is("no key in a list") ? TRP_TYPE_STRING_LIST : TRP_TYPE_INT;
    option.default_value.entries = &entry;
    option.default_value.count = 1;
    static trp_value nothing = {};
    nothing.type = TRP_TYPE_STRING;
    if (is("a choice of nothing")) option.choices = &nothing;
    if (is("a choice of nothing") || is("no table of choices")) option.num_choices = 1;
    if (is("no name of an option")) option.name = nullptr;
  }
  if (is("nameless package")) {
    static const trp_package package = {nullptr, nullptr};
    plugin.num_packages = 1;
    plugin.packages = &package;
    plugin.locate = [](int64_t, const char*) {};
  }
  task.render_size = RenderSize;
  task.render = Render;
  picture[0] = is("a height below 0") ? -1 : int64_t{1} << 20;
  picture[1] = is("a width below 0") ? -1 : is("a picture as large as none") ? int64_t{1} << 62 : 0;
  spec = {};
  spec.name = "observation";
  spec.role = TRP_OBSERVATION;
  spec.dtype = TRP_INT64;
  num_specs = is("no shape") || is("no categories") || is("many dimensions");
  if (is("no shape")) spec.ndim = 1;
  if (is("no categories")) spec.num_categories = 1;
  if (is("many dimensions")) spec.ndim = 1 << 30;
  if (is("reset options alone") || is("unknown reset option type")) {
    task.reset_options = &option;
    task.num_reset_options = 1;
  }
  if (is("unknown reset option type")) {
    task.open_reset = OpenReset;
    task.close_reset = CloseReset;
    task.reset_with = ResetWith;
  }
  return &plugin;
}
