// Visits of envs that their worker has finished.
#include <cstdint>
#include <new>
#include <utility>

#include "workers/worker_executor.h"

namespace torchrl_pool::core {

void WorkerExecutor::Visit(const Run& run, Waiter& waiter) {
  const FloatModes::Scope modes(float_modes_);
  Job& job = *run.job;
  const auto envs = job.envs.subspan(run.index, run.request.count);
  Scratch& scratch = waiter.scratch;
  try {
    if (job.op == Op::kCreate) {
      MakeEnvs(envs, scratch);
    } else {
      VisitEnvs(job, envs, run.turn, scratch);
    }
  } catch (...) {
    return Lose(job, envs, std::current_exception());
  }
  // The job lasts until all its envs are delivered: those that go on are asked for before.
  std::vector<std::uint32_t>& over = waiter.over;
  over.clear();
  for (std::uint32_t i = 0; i < envs.size(); ++i) {
    const Result result = scratch.results[i];
    if (result == Result::kGoesOn) {
      AskMore(run, i);
      continue;
    }
    arena_.cell(envs[i]).step = arena_.cell(envs[i]).root = EnvCell::kNone;
    scratch.results[over.size()] = result;
    over.push_back(envs[i]);
  }
  if (over.size() < envs.size()) NotifyOfMore();
  if (over.empty()) return;
  CompleteMessages(scratch.faults);
  Deliver(job, over, std::span(scratch.results).first(over.size()), scratch.faults);
}

void WorkerExecutor::MakeEnvs(std::span<const std::uint32_t> envs, Scratch& scratch) {
  scratch.results.clear();
  scratch.faults.clear();
  for (const std::uint32_t env : envs) {
    envs_.NewSlot(env).env = reinterpret_cast<trp_env*>(&remotes_[env]);
    const bool is_made = arena_.cell(env).root == EnvCell::kOk;
    scratch.results.push_back(is_made ? Result::kOk : Result::kFailed);
    if (!is_made) scratch.faults.push_back({env, "", EnvFault::kInCreation});
  }
}

// A task's error has little room.
void WorkerExecutor::CompleteMessages(std::vector<EnvFault>& faults) const {
  try {
    for (EnvFault& fault : faults) {
      std::string whole = arena_.MessageOf(static_cast<std::uint32_t>(fault.env_index));
      if (whole.starts_with(fault.message)) fault.message = std::move(whole);  // else it is a stage's
    }
  } catch (const std::bad_alloc&) {  // then in short
  }
}

}  // namespace torchrl_pool::core
