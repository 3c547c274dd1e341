#include "env_table.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "plan.h"
#include "validate.h"

namespace torchrl_pool::core {
namespace {

const Config& FirstConfig(const std::vector<EnvRequest>& envs) {
  if (envs.empty()) throw StatusError(TRP_INVALID_ARGUMENT, "a pool has at least one env");
  if (envs.size() > kMaxEnvs) {
    throw StatusError(TRP_INVALID_ARGUMENT, "a pool holds at most " + std::to_string(kMaxEnvs) + " envs");
  }
  return *envs[0].config;
}

bool HaveOneConfig(const std::vector<EnvRequest>& envs) {
  const auto is_first = [&](const EnvRequest& env) { return env.config == envs[0].config; };
  return std::all_of(envs.begin(), envs.end(), is_first);
}

}  // namespace

EnvTable::EnvTable(std::vector<EnvRequest> envs, const LayoutOptions& options)
    : requests_(std::move(envs)),
      layout_(FirstConfig(requests_), options),
      one_config_(HaveOneConfig(requests_)),
      all_(requests_.size()),
      slot_memory_(requests_.size() * sizeof(EnvSlot)),
      stage_states_(requests_.size() * layout_.state_bytes),
      slots_(reinterpret_cast<EnvSlot*>(slot_memory_.data())),
      states_(requests_.size(), EnvState::kUnset) {
  std::iota(all_.begin(), all_.end(), 0u);
  for (const EnvRequest& env : requests_) {
    if (one_config_) break;
    const Config& first = *requests_[0].config;
    std::string mismatch = Mismatch(first, *env.config);
    if (mismatch.empty() && options.from_pixels && first.RenderSize() != env.config->RenderSize()) {
      mismatch = std::string("the pictures of '") + first.task().id + "' and '" + env.config->task().id +
                 "' differ in size";
    }
    if (!mismatch.empty()) throw StatusError(TRP_INVALID_ARGUMENT, mismatch);
  }
}

EnvTable::~EnvTable() {
  for (std::uint32_t env = 0; env < size(); ++env) Destroy(env);
}

EnvSlot& EnvTable::NewSlot(std::uint32_t env) {
  const EnvRequest& request = requests_[env];
  return *new (&slots_[env]) EnvSlot{request.config.get(),
                                     &request.config->task(),
                                     nullptr,
                                     request.max_episode_steps,
                                     0,
                                     stage_states_.data() + env * layout_.state_bytes};
}

void EnvTable::Destroy(std::uint32_t env) {
  EnvSlot& slot = slots_[env];
  if (slot.env) slot.task->destroy(slot.env);
  slot.env = nullptr;
}

// ---- the rules ----------------------------------------------------------------------------------

void EnvTable::Launch(const Job& job) {
  if (IsStateOp(job.op)) CheckCan(job.op, job.envs);
  job.ForEachOp([&](Op op, std::span<const std::uint32_t> envs) {
    CheckStates(op, envs);
    if (IsStep(op)) CheckActions(job.actions, envs, job.num_steps);
  });
  if (IsStateOp(job.op)) {
    for (const std::uint32_t env : job.envs) job.state_ops->before.push_back(states_[env]);
  }
  SetState(job.envs, EnvState::kInFlight);
}

void EnvTable::Land(const Job& job, bool is_known) {
  const EnvState state = is_known ? EnvState::kReady : EnvState::kUnknown;
  if (!IsStateOp(job.op)) return SetState(job.envs, state);
  for (std::size_t i = 0; i < job.envs.size(); ++i) {
    const bool is_loaded = job.op == Op::kLoad && job.state_ops->is_done[i];
    states_[job.envs[i]] = is_loaded ? EnvState::kReady : job.state_ops->before[i];
  }
}

// Throws PoolError for an env in flight, and StatusError for a task that has no such function.
void EnvTable::CheckCan(Op op, std::span<const std::uint32_t> envs) const {
  for (const std::uint32_t env : envs) {
    if (states_[env] == EnvState::kInFlight) Refuse(op, env);
    const trp_task& task = *slots_[env].task;
    const bool can = op == Op::kSave   ? task.save != nullptr
                     : op == Op::kLoad ? task.load != nullptr
                                       : task.render != nullptr;
    if (can) continue;
    throw StatusError(TRP_UNSUPPORTED, std::string("task '") + task.id +
                                           (op == Op::kSave   ? "' cannot save its state"
                                            : op == Op::kLoad ? "' cannot load a state"
                                                              : "' cannot be rendered"));
  }
}

void EnvTable::CheckStates(Op op, std::span<const std::uint32_t> envs) const {
  if (op == Op::kCreate) return;
  const bool must_be_ready = op != Op::kReset && op != Op::kLoad;
  bool all_may = true;
  ForEachRun(envs, [&](std::uint32_t first, std::uint32_t count) {
    // In bytes and without a way out: sixteen envs at once.
    std::uint8_t may_not = 0;
    for (const EnvState state : std::span(states_).subspan(first, count)) {
      const bool this_may_not = must_be_ready ? state != EnvState::kReady : state == EnvState::kInFlight;
      may_not = static_cast<std::uint8_t>(may_not | this_may_not);
    }
    all_may &= may_not == 0;
  });
  if (all_may) return;
  for (const std::uint32_t env : envs) {
    const EnvState state = states_[env];
    if (state == EnvState::kInFlight || (must_be_ready && state != EnvState::kReady)) Refuse(op, env);
  }
}

void EnvTable::Refuse(Op op, std::uint32_t env) const {
  const std::string name = "env " + std::to_string(env);
  if (IsStateOp(op)) {
    throw PoolError(states_[env] == EnvState::kInFlight ? name + " is in flight: receive it first"
                    : op == Op::kSave                   ? name + " has no state to save: reset it first"
                                                        : name + " has nothing to show: reset it first");
  }
  switch (states_[env]) {
    case EnvState::kUnset:
      throw PoolError(name + " has not been reset: call reset() before the first step");
    case EnvState::kFailed:
      throw PoolError(
          name + " has failed and must be reset before it can be stepped again: " + fault_messages_.at(env));
    case EnvState::kUnknown:
      throw PoolError("a call was interrupted while " + name +
                      " was at work, so its state is unknown: reset it before the next step");
    default:
      throw PoolError(name + " is in flight: receive it before it is " +
                      (op == Op::kReset ? "reset" : "stepped") + " again");
  }
}

void EnvTable::CheckActions(const Batch& actions, std::span<const std::uint32_t> envs,
                            std::uint32_t num_steps) const {
  if (one_config_) return core::CheckActions(layout_, *requests_[0].config, actions, envs, num_steps);
  for (const std::uint32_t& env : envs) {
    core::CheckActions(layout_, *requests_[env].config, actions, std::span(&env, 1), num_steps);
  }
}

void EnvTable::CheckIndex(std::uint64_t env) const {
  if (env < size()) return;
  throw StatusError(TRP_INVALID_ARGUMENT, "env_index " + std::to_string(env) + " is out of range for " +
                                              std::to_string(size()) + " envs");
}

void EnvTable::SetState(std::span<const std::uint32_t> envs, EnvState state) {
  ForEachRun(envs, [&](std::uint32_t first, std::uint32_t count) {
    std::memset(&states_[first], static_cast<int>(state), count * sizeof state);
  });
}

void EnvTable::MarkFailed(std::span<const EnvFault> faults) {
  for (const EnvFault& fault : faults) {
    const auto env = static_cast<std::uint32_t>(fault.env_index);
    states_[env] = fault.unchanged ? EnvState::kReady : EnvState::kFailed;
    fault_messages_[env] = fault.message;
  }
}

EnvFailure EnvTable::FailureOf(std::vector<EnvFault> faults) const {
  const auto by_env = [](const EnvFault& a, const EnvFault& b) { return a.env_index < b.env_index; };
  std::sort(faults.begin(), faults.end(), by_env);
  const EnvFault& first = faults[0];
  const std::size_t others = faults.size() - 1;
  std::string message = "env " + std::to_string(first.env_index) + " (" +
                        requests_[static_cast<std::size_t>(first.env_index)].config->task().id + ") failed " +
                        (first.step == EnvFault::kInCreation  ? "when it was created"
                         : first.step == EnvFault::kInReset   ? "in a reset"
                         : first.step == EnvFault::kInStateOp ? "when its state was saved, loaded or drawn"
                                                              : "in step " + std::to_string(first.step)) +
                        ": " + first.message;
  if (others > 0) {
    message += " (and " + std::to_string(others) + " more env" + (others == 1 ? "" : "s") + " failed too)";
  }
  return EnvFailure(message, std::move(faults));
}

}  // namespace torchrl_pool::core
