// Visits of envs that their worker has finished.
#include <algorithm>
#include <new>
#include <optional>
#include <utility>

#include "chain.h"
#include "workers/worker_executor.h"

namespace torchrl_pool::core {

void WorkerExecutor::Visit(const Run& run, Waiter& waiter) {
  Job& job = *run.job;
  const auto envs = job.envs.subspan(run.index, run.request.count);
  Scratch& scratch = waiter.scratch;
  try {
    if (job.op == Op::kCreate) {
      MakeEnvs(envs, scratch);
    } else if (job.chain) {
      return VisitInTurns(run, envs, waiter);
    } else {
      VisitEnvs(job, envs, scratch, nullptr);
    }
  } catch (...) {
    return Lose(job, envs, std::current_exception());
  }
  FinishVisits(job, envs, scratch.results, scratch.faults);
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

// With a chain, which may need more of an env: the step repeated, or a reset after an episode that the
// chain's own time limit has ended.
void WorkerExecutor::VisitInTurns(const Run& run, std::span<const std::uint32_t> envs, Waiter& waiter) {
  Job& job = *run.job;
  Scratch& scratch = waiter.scratch;
  auto& results = scratch.results;
  const bool is_step = job.op != Op::kReset && run.part != Run::Part::kNextEpisode;
  std::vector<Op> asked(envs.size(), Op::kCreate);  // of each env, what it has to do more; kCreate: nothing
  BeginVisits(job, run.part == Run::Part::kAll ? envs : envs.first(0), envs.size(), scratch);
  Visitor visitor(envs_.layout(), job, scratch);
  std::optional<ChainRunner> root;
  for (std::size_t i = 0; i < envs.size() && !job.cancelled.load(std::memory_order_relaxed); ++i) {
    EnvSlot& slot = envs_.slot(envs[i]);
    bool goes_on = false;
    if (is_step) {
      scratch.Note(i, envs[i], visitor.VisitOnce(envs[i], slot, run.time, &goes_on));
    } else if (job.op == Op::kReset) {
      scratch.Note(i, envs[i], visitor.Visit(envs[i], slot));
    } else {
      BeginNext(job, i, envs[i], visitor, scratch, root);
    }
    if (!goes_on) continue;
    asked[i] = job.op;
    results[i] = Result::kSkipped;
  }
  if (run.part != Run::Part::kNextEpisode) RunChain(job, envs, scratch);
  for (std::size_t i = 0; is_step && job.op == Op::kStepAndReset && i < envs.size(); ++i) {
    if (results[i] != Result::kOk || !IsDone(job, envs[i])) continue;
    if (arena_.cell(envs[i]).root != EnvCell::kNone) {
      BeginNext(job, i, envs[i], visitor, scratch, root);
    } else {
      asked[i] = Op::kReset;
    }
  }
  waiter.envs.clear();
  for (std::size_t i = 0; i < envs.size(); ++i) {
    if (asked[i] != Op::kCreate) continue;
    waiter.results[waiter.envs.size()] = results[i];
    waiter.envs.push_back(envs[i]);
  }
  const std::span<const std::uint32_t> over = waiter.envs;
  // The job lasts until all its envs are delivered: those that have more to do are asked for before.
  for (std::uint32_t i = 0; i < envs.size(); ++i) {
    if (asked[i] == Op::kCreate) continue;
    const bool repeats = asked[i] != Op::kReset;
    AskMore(run, i, asked[i], repeats ? Run::Part::kRepeat : Run::Part::kNextEpisode);
  }
  if (over.size() < envs.size()) NotifyOfMore();
  if (over.empty()) return;
  if (CompletesRootInVisits(job)) CompleteRoot(envs_.layout(), job, over);
  FinishVisits(job, over, std::span(waiter.results).first(over.size()), scratch.faults);
}

void WorkerExecutor::FinishVisits(Job& job, std::span<const std::uint32_t> envs,
                                  std::span<const Result> results, std::vector<EnvFault>& faults) {
  for (const std::uint32_t env : envs) arena_.cell(env).step = arena_.cell(env).root = EnvCell::kNone;
  try {
    for (EnvFault& fault : faults) {  // in full: a task's error has little room
      std::string whole = arena_.MessageOf(static_cast<std::uint32_t>(fault.env_index));
      if (whole.starts_with(fault.message)) fault.message = std::move(whole);  // else it is a stage's
    }
  } catch (const std::bad_alloc&) {  // then in short
  }
  Deliver(job, envs, results, faults);
}

Next WorkerExecutor::RunPhases(Job& job) {
  while (true) {
    const Next next = NextPhase(envs_.layout(), envs_.all(), job);
    if (next != Next::kPhase) return next;
    RunPhase(envs_.layout(), job, job.envs);
  }
}

}  // namespace torchrl_pool::core
