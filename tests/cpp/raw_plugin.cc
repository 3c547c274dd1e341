// Envs that speak the ABI without env.h, as another language would, and not always well: specs that make no
// sense, and faults that env.h would never let through.
#include <cstring>
#include <string_view>

#include "torchrl_pool/abi.h"

namespace {

constexpr int64_t kTwo[] = {2};
constexpr int64_t kNegative[] = {-2};
constexpr int64_t kHuge[] = {int64_t{1} << 33, int64_t{1} << 33};  // more than any size counts
constexpr int64_t kCategories[] = {3, 3};
constexpr int64_t kNoCategories[] = {0};
constexpr int64_t kNoChoice[] = {1, 0};
constexpr int64_t kTwoByTwo[] = {2, 2};
constexpr int64_t kRepeating[] = {2, 3, 2, 3};
constexpr int64_t kUnlike[] = {2, 4};
constexpr int64_t kOdd[] = {2, 3, 3, 2};

constexpr trp_spec Spec(const char* name, int32_t role, int32_t dtype, int32_t ndim, const int64_t* shape,
                        int32_t num_categories = 0, const int64_t* categories = nullptr) {
  return {name, nullptr, role, dtype, ndim, shape, nullptr, nullptr, num_categories, categories};
}

// The spec that a task has besides its reward.
constexpr trp_spec kGood = Spec("x", TRP_OBSERVATION, TRP_FLOAT32, 1, kTwo);
constexpr trp_spec kReward = Spec("reward", TRP_REWARD, TRP_FLOAT32, 0, nullptr);

struct Case {
  const char* id;
  trp_spec specs[2];
};
constexpr Case kCases[] = {
    {"Good-v0", {kGood, kReward}},
    {"NoName-v0", {Spec(nullptr, TRP_OBSERVATION, TRP_FLOAT32, 1, kTwo), kReward}},
    {"UnknownRole-v0", {Spec("x", 17, TRP_FLOAT32, 1, kTwo), kReward}},
    {"UnknownDtype-v0", {Spec("x", TRP_OBSERVATION, 17, 1, kTwo), kReward}},
    {"NegativeNdim-v0", {Spec("x", TRP_OBSERVATION, TRP_FLOAT32, -1, kTwo), kReward}},
    {"NegativeShape-v0", {Spec("x", TRP_OBSERVATION, TRP_FLOAT32, 1, kNegative), kReward}},
    {"HugeShape-v0", {Spec("x", TRP_OBSERVATION, TRP_FLOAT32, 2, kHuge), kReward}},
    {"NegativeSpecs-v0", {kGood, kReward}},
    {"NegativeCategories-v0", {Spec("x", TRP_ACTION, TRP_INT64, 0, nullptr, -1, kTwo), kReward}},
    {"FewCategories-v0", {Spec("x", TRP_ACTION, TRP_INT64, 0, nullptr, 2, kCategories), kReward}},
    {"FloatCategories-v0", {Spec("x", TRP_ACTION, TRP_FLOAT32, 1, kTwo, 2, kCategories), kReward}},
    {"ZeroCategories-v0", {Spec("x", TRP_ACTION, TRP_INT64, 0, nullptr, 1, kNoCategories), kReward}},
    {"NoChoice-v0", {Spec("x", TRP_ACTION, TRP_INT64, 1, kTwo, 2, kNoChoice), kReward}},
    {"LikeChoices-v0", {Spec("x", TRP_OBSERVATION, TRP_INT64, 1, kTwo, 2, kCategories), kReward}},
    {"RepeatingChoices-v0", {Spec("x", TRP_OBSERVATION, TRP_INT64, 2, kTwoByTwo, 4, kRepeating), kReward}},
    {"OddChoices-v0", {Spec("x", TRP_OBSERVATION, TRP_INT64, 2, kTwoByTwo, 4, kOdd), kReward}},
    {"Category-v0", {Spec("x", TRP_OBSERVATION, TRP_INT64, 1, kTwo, 2, kUnlike), kReward}},
    {"DoubleReward-v0", {kGood, Spec("reward", TRP_REWARD, TRP_FLOAT64, 0, nullptr)}},
    {"IntReward-v0", {kGood, Spec("reward", TRP_REWARD, TRP_INT64, 0, nullptr)}},
    {"IntDone-v0", {Spec("x", TRP_DONE, TRP_INT64, 0, nullptr), kReward}},
    {"SameNames-v0", {Spec("reward", TRP_OBSERVATION, TRP_FLOAT32, 1, kTwo), kReward}},
    {"ReservedName-v0", {Spec("terminated", TRP_OBSERVATION, TRP_BOOL, 1, kTwo), kReward}},
    {"LongError-v0", {kGood, kReward}},
    {"Faults-v0", {kGood, kReward}},
    {"ResetStatus-v0", {kGood, kReward}},
};
constexpr size_t kNumCases = sizeof kCases / sizeof kCases[0];

constexpr const trp_spec* FindSpecs(const char* id) {
  for (const Case& one : kCases) {
    if (std::string_view(one.id) == id) return one.specs;
  }
  return nullptr;
}
constexpr const trp_spec* kNegativeSpecs = FindSpecs("NegativeSpecs-v0");

// Faults-v0: each env counts its steps; the first env to be created fails its second step with a message,
// the second one fails its second step and says nothing. Its create sets the env even where it fails.
struct Env {
  int number;
  int steps;
};
int created = 0;

int Open(const trp_task* task, const trp_value*, trp_config** config, trp_error* error) {
  if (std::strcmp(task->id, "LongError-v0") == 0) {
    std::memset(error->message, 'x', sizeof error->message);  // no NUL at its end
    return 1234;
  }
  *config = reinterpret_cast<trp_config*>(const_cast<trp_task*>(task));
  return TRP_OK;
}
void Close(trp_config*) {}
int64_t GetSpecs(const trp_config* config, const trp_spec** specs) {
  *specs = static_cast<const Case*>(reinterpret_cast<const trp_task*>(config)->user_data)->specs;
  return *specs == kNegativeSpecs ? -1 : 2;
}
int Create(const trp_config*, trp_env** env, trp_error*) {
  *env = reinterpret_cast<trp_env*>(new Env{created++, 0});
  return TRP_OK;
}
void Destroy(trp_env* env) { delete reinterpret_cast<Env*>(env); }
int Seed(trp_env*, const uint32_t*, size_t, trp_error*) { return TRP_OK; }
int Reset(trp_env* env, void* const*, trp_error*) {
  reinterpret_cast<Env*>(env)->steps = 0;
  return TRP_OK;
}
// Category-v0: one choice of two and one of four, both the number of steps.
int CountInCategories(trp_env* env, void* const* outputs, trp_error*) {
  const int64_t steps = reinterpret_cast<Env*>(env)->steps++;
  auto* out = static_cast<int64_t*>(outputs[0]);
  out[0] = out[1] = steps - (steps > 2 ? 4 : 0);
  return TRP_OK;
}
// ResetStatus-v0: each reset returns the next of these.
constexpr int kStatuses[] = {TRP_OK, TRP_TERMINATED,     TRP_TRUNCATED, TRP_TERMINATED_AND_TRUNCATED, -1, 9,
                             12,     TRP_TRUNCATED + 256};
int ResetWithStatus(trp_env* env, void* const*, trp_error*) {
  return kStatuses[reinterpret_cast<Env*>(env)->steps++];
}
int Step(trp_env* env, const void* const*, void* const*, trp_step_result*, trp_error* error) {
  Env& self = *reinterpret_cast<Env*>(env);
  if (++self.steps < 2 || self.number > 1) return TRP_OK;
  if (self.number == 0) std::strcpy(error->message, "told you so");
  return TRP_RUNTIME_ERROR;
}

trp_task tasks[kNumCases];
const trp_task* task_pointers[kNumCases];
trp_plugin plugin;

}  // namespace

extern "C" __attribute__((visibility("default"))) const trp_plugin* torchrl_pool_plugin(trp_error*) {
  for (size_t i = 0; i < kNumCases; ++i) {
    trp_task& task = tasks[i];
    task.id = kCases[i].id;
    task.description = "";
    task.user_data = &kCases[i];
    task.open = Open;
    task.close = Close;
    task.specs = GetSpecs;
    task.create = Create;
    task.destroy = Destroy;
    task.seed = Seed;
    task.reset = Reset;
    task.step = Step;
    if (std::strcmp(task.id, "Category-v0") == 0) task.reset = CountInCategories;
    if (std::strcmp(task.id, "ResetStatus-v0") == 0) task.reset = ResetWithStatus;
    task_pointers[i] = &task;
  }
  plugin = {TRP_ABI_VERSION, "raw", "1", kNumCases, task_pointers, 0, nullptr, nullptr};
  return &plugin;
}
