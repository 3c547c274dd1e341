#include "workers/remote_task.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "errors.h"

namespace torchrl_pool::core {
namespace {

RemoteEnv& Remote(trp_env* env) { return *reinterpret_cast<RemoteEnv*>(env); }

const RemoteTask& TaskOf(const void* pointer) { return *static_cast<const RemoteTask*>(pointer); }

int Fail(const RemoteEnv& remote, trp_error* error, int status = TRP_RUNTIME_ERROR) {
  const std::string message = remote.arena->MessageOf(remote.env);
  const std::size_t size = std::min(message.size(), sizeof error->message - 1);
  std::memcpy(error->message, message.data(), size);
  error->message[size] = '\0';
  return status;
}

// The exception at hand as the env's failure.
int FailAsThrown(const RemoteEnv& remote, trp_error* error) {
  try {
    throw;
  } catch (const Interrupted&) {
    throw;  // no failure of the env's
  } catch (const StatusError& reason) {
    remote.arena->SetMessage(remote.env, reason.what());
    return Fail(remote, error, reason.status);
  } catch (const std::exception& reason) {
    remote.arena->SetMessage(remote.env, reason.what());
    return Fail(remote, error);
  }
}

// What a visit asks for, once: its worker has done it.
bool Take(RemoteEnv& remote, EnvCell::State EnvCell::* state) {
  const EnvCell::State was = std::exchange(remote.arena->cell(remote.env).*state, EnvCell::kNone);
  if (was != EnvCell::kOk && was != EnvCell::kFailed) {
    remote.arena->SetMessage(remote.env, "its worker process has overwritten memory that it shares");
  }
  return was == EnvCell::kOk;
}

int Reset(trp_env* env, void* const* outputs, trp_error* error) {
  RemoteEnv& remote = Remote(env);
  if (!Take(remote, &EnvCell::root)) return Fail(remote, error);
  const auto& bytes = remote.arena->shape().output_bytes;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (outputs[i]) std::memcpy(outputs[i], remote.arena->RootRow(i, remote.env), bytes[i]);
  }
  const EnvCell& cell = remote.arena->cell(remote.env);
  if (cell.root_terminated) return cell.root_truncated ? TRP_TERMINATED_AND_TRUNCATED : TRP_TERMINATED;
  return cell.root_truncated ? TRP_TRUNCATED : TRP_OK;
}

int Step(trp_env* env, const void* const*, void* const* outputs, trp_step_result* result, trp_error* error) {
  RemoteEnv& remote = Remote(env);
  if (!Take(remote, &EnvCell::step)) return Fail(remote, error);
  const EnvCell& cell = remote.arena->cell(remote.env);
  result->reward = cell.reward;
  result->terminated = cell.terminated != 0;
  result->truncated = cell.truncated != 0;
  const auto& bytes = remote.arena->shape().output_bytes;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (outputs[i]) std::memcpy(outputs[i], remote.arena->OutputRow(i, remote.env), bytes[i]);
  }
  return TRP_OK;
}

}  // namespace

RemoteTask::RemoteTask(std::string id, std::vector<Spec> specs)
    : id_(std::move(id)), specs_(std::move(specs)) {
  for (const Spec& spec : specs_) {
    raw_.push_back(
        {spec.name.c_str(), spec.help.c_str(), spec.role, spec.dtype,
         static_cast<std::int32_t>(spec.shape.size()), spec.shape.data(),
         spec.low.empty() ? nullptr : spec.low.data(), spec.high.empty() ? nullptr : spec.high.data(),
         spec.one_hot ? 0 : static_cast<std::int32_t>(spec.categories.size()), spec.categories.data()});
  }
  task_.id = id_.c_str();
  task_.reward_threshold = std::numeric_limits<double>::quiet_NaN();
  task_.user_data = this;
  task_.open = [](const trp_task* task, const trp_value*, trp_config** config, trp_error*) -> int {
    *config = static_cast<trp_config*>(const_cast<void*>(task->user_data));
    return TRP_OK;
  };
  task_.close = [](trp_config*) {};
  task_.specs = [](const trp_config* config, const trp_spec** raw) {
    const auto& task = TaskOf(config);
    *raw = task.raw_.data();
    return static_cast<std::int64_t>(task.raw_.size());
  };
  task_.create = nullptr;  // the executor makes them: a task does not know which of the envs one is
  task_.destroy = [](trp_env*) {};
  // The request carries the seed to the worker.
  task_.seed = [](trp_env*, const std::uint32_t*, std::size_t, trp_error*) -> int { return TRP_OK; };
  task_.reset = Reset;
  task_.step = Step;
  task_.save = [](trp_env* env, std::uint8_t* bytes, std::size_t* size, trp_error* error) -> int {
    RemoteEnv& remote = Remote(env);
    try {
      const std::string state = remote.saved.empty() ? remote.save(remote.env) : std::move(remote.saved);
      remote.saved.clear();
      const std::size_t capacity = std::exchange(*size, state.size());
      if (state.size() > capacity) {
        remote.saved = state;
      } else {
        std::memcpy(bytes, state.data(), state.size());
      }
      return TRP_OK;
    } catch (...) {
      return FailAsThrown(remote, error);
    }
  };
  task_.load = [](trp_env* env, const std::uint8_t* bytes, std::size_t size, trp_error* error) -> int {
    RemoteEnv& remote = Remote(env);
    try {
      remote.load(remote.env, {reinterpret_cast<const char*>(bytes), size});
      return TRP_OK;
    } catch (...) {
      return FailAsThrown(remote, error);
    }
  };
}

std::shared_ptr<const Config> RemoteTask::Open(std::string id, std::vector<Spec> specs) {
  auto task = std::make_shared<RemoteTask>(std::move(id), std::move(specs));
  auto config = std::make_shared<Config>(task, task->task_, std::vector<OptionValue>());
  for (std::size_t i = 0; i < task->specs_.size(); ++i) {
    if (task->specs_[i].one_hot) config->SetOneHot(i, task->specs_[i].categories);
  }
  return config;
}

}  // namespace torchrl_pool::core
