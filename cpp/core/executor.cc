// Visits, deliveries and phases, the same for both executors.
//
// The first phase of a job visits its envs. Once all visits are over come the later phases of its chain, over
// the rows of the steps and then over those of the resets, and at last the root is completed.
#include "executor.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "chain.h"
#include "errors.h"
#include "outbox.h"
#include "perturb.h"
#include "saved_state.h"

namespace torchrl_pool::core {
namespace {

using Phase = Job::Phase;

// A job that was interrupted is left as it is: its results are not read.
bool HasFurtherPhases(const Job& job) {
  return !job.outbox && job.faults.empty() && !job.error && !job.cancelled.load(std::memory_order_relaxed);
}

Chain::When WhenOf(bool of_resets) { return of_resets ? Chain::When::kReset : Chain::When::kStep; }

bool HasResets(const Job& job) { return job.resets.load(std::memory_order_relaxed) > 0; }

}  // namespace

// ---- visits -----------------------------------------------------------------------------------

[[gnu::flatten]] void Executor::VisitEnvs(Job& job, std::span<const std::uint32_t> envs, Turn turn,
                                          Scratch& scratch) {
  scratch.results.assign(envs.size(), Result::kSkipped);
  scratch.faults.clear();
  if (IsStateOp(job.op)) return VisitStates(job, envs, scratch);
  Visitor visitor(envs_.layout(), job, scratch);
  if (turn == kNextEpisode) {
    std::fill(scratch.results.begin(), scratch.results.end(), Result::kOk);
  } else {
    VisitRows(job, envs, turn, visitor, scratch);
    const auto when = job.op == Op::kReset ? Stage::When::kReset : Stage::When::kStep;
    RunChain(job, job.out, when, envs, scratch, Result::kOk);
  }
  if (job.op == Op::kStepAndReset) BeginEpisodes(job, envs, visitor, scratch);
}

void Executor::VisitStates(Job& job, std::span<const std::uint32_t> envs, Scratch& scratch) {
  const auto first = static_cast<std::size_t>(envs.data() - job.envs.data());
  for (std::size_t i = 0; i < envs.size() && !job.cancelled.load(std::memory_order_relaxed); ++i) {
    VisitState(job, first + i, envs_.slot(envs[i]));
    scratch.results[i] = Result::kOk;
  }
}

// The i-th of the job's envs. Throws Interrupted alone, which is of the call and not of the env.
void Executor::VisitState(const Job& job, std::size_t i, EnvSlot& slot) {
  StateOps& ops = *job.state_ops;
  const std::uint32_t env = job.envs[i];
  try {
    if (job.op == Op::kSave) {
      ops.states[i] = SaveState(envs_.layout(), slot, env);
    } else if (job.op == Op::kLoad) {
      LoadState(envs_.layout(), slot, env, ops.before[i] == EnvState::kReady, ops.states[i]);
    } else {
      trp_error error{};
      ThrowUnlessOk(slot.task->render(slot.env, ops.pictures[i], &error), slot, env, error);
    }
    ops.is_done[i] = 1;
  } catch (const Interrupted&) {
    throw;
  } catch (...) {
    ops.refusals[i] = std::current_exception();
  }
}

void Executor::VisitRows(Job& job, std::span<const std::uint32_t> envs, Turn turn, Visitor& visitor,
                         Scratch& scratch) {
  for (const RecordedColumn& column : job.recorded) {
    if (turn > 0) break;
    CopyRows(column.from.From(envs[0]), column.to.From(envs[0]), column.row_bytes, envs.size());
  }
  const bool repeats = job.chain->repeat().times > 1 && IsStep(job.op);
  for (std::size_t i = 0; i < envs.size(); ++i) {
    if (job.cancelled.load(std::memory_order_relaxed)) break;
    const std::uint32_t env = envs[i];
    EnvSlot& slot = job.op == Op::kCreate ? envs_.NewSlot(env) : envs_.slot(env);
    scratch.Note(i, env, repeats ? Repeat(job, env, turn, visitor, scratch) : visitor.Visit(env, slot));
  }
}

// A step that repeats its action, as far as that is at hand (frame skip): rewards add up.
[[gnu::noinline]] Result Executor::Repeat(Job& job, std::uint32_t env, Turn turn, Visitor& visitor,
                                          Scratch& scratch) {
  const ActionRepeat& repeat = job.chain->repeat();
  std::byte* const rewards = job.out.Row(repeat.reward, env);
  while (true) {
    if (turn > 0) scratch.rewards.assign(rewards, rewards + repeat.bytes());
    const Result result = visitor.Visit(env, envs_.slot(env));
    if (turn > 0) scratch.unchanged = false;  // the times before count too
    if (turn > 0 && result == Result::kOk) repeat.AddUp(scratch.rewards.data(), rewards);
    if (result != Result::kOk || ++turn == repeat.times || IsDone(job, env)) return result;
    if (!IsAtHand(env, job.op)) return Result::kGoesOn;
  }
}

void Executor::BeginEpisodes(Job& job, std::span<const std::uint32_t> envs, Visitor& visitor,
                             Scratch& scratch) {
  const Rows done = job.out.RowsFrom(envs_.layout().done, 0);
  bool any_begins = false;
  for (std::size_t i = 0; i < envs.size(); ++i) {
    Result& result = scratch.results[i];
    const std::uint32_t env = envs[i];
    if (*done.From(env).base == std::byte{0} || result != Result::kOk) continue;
    if (!IsAtHand(env, Op::kReset)) {
      result = Result::kGoesOn;
      continue;
    }
    scratch.Note(i, env, visitor.BeginNext(env, envs_.slot(env)));
    any_begins = true;
  }
  if (any_begins) RunChain(job, job.root, Stage::When::kReset, envs, scratch, Result::kReset);
}

// The stages that follow visits, on the rows of those envs whose visits had a certain result.
void Executor::RunChain(const Job& job, const Batch& batch, Stage::When when,
                        std::span<const std::uint32_t> envs, const Scratch& scratch, Result after) {
  if (!job.chain->HasStages(0, when)) return;
  ChainRunner runner(job, batch);
  for (std::size_t begin = 0, end = 0; begin < envs.size(); begin = end) {
    end = begin + 1;
    if (scratch.results[begin] != after) continue;
    while (end < envs.size() && scratch.results[end] == after && envs[end] == envs[end - 1] + 1) ++end;
    runner.Run(0, when, envs[begin], static_cast<std::uint32_t>(end - begin));
  }
}

// ---- deliveries ---------------------------------------------------------------------------------

[[gnu::flatten]] void Executor::Deliver(Job& job, std::span<const std::uint32_t> envs,
                                        std::span<const Result> results, std::vector<EnvFault>& faults) {
  try {
    HandOver(job, envs, results, faults);
  } catch (...) {
    return Lose(job, envs, std::current_exception());
  }
  CountDone(job, static_cast<std::uint32_t>(envs.size()));
}

void Executor::HandOver(Job& job, std::span<const std::uint32_t> envs, std::span<const Result> results,
                        std::vector<EnvFault>& faults) {
  if (job.outbox) {
    job.outbox->Deliver(job.op, envs, results, faults);
  } else {
    const auto resets = std::count(results.begin(), results.end(), Result::kReset);
    if (resets > 0) job.resets.fetch_add(static_cast<std::uint32_t>(resets), std::memory_order_relaxed);
    if (!faults.empty()) {
      std::lock_guard lock(job.faults_mutex);
      std::move(faults.begin(), faults.end(), std::back_inserter(job.faults));
    }
  }
}

void Executor::Lose(Job& job, std::span<const std::uint32_t> envs, std::exception_ptr error) {
  if (job.outbox) {
    job.outbox->DeliverLost(job.op, envs);
  } else {
    std::lock_guard lock(job.faults_mutex);
    job.error = std::move(error);
  }
  CountDone(job, static_cast<std::uint32_t>(envs.size()));
}

[[gnu::flatten]] void Executor::CountDone(Job& job, std::uint32_t count) {
  Perturb();
  if (job.remaining.fetch_sub(count, std::memory_order_acq_rel) != count) return;
  if (!job.has_ticket) return (void)Advance(job);
  learning_order_.SetMayLearn(job);
  AdvanceLearners();
}

// ---- phases -------------------------------------------------------------------------------------

// Each job that finishes lets the next one go on.
void Executor::AdvanceLearners() {
  Perturb();
  while (Job* const job = learning_order_.Next()) {
    if (!Advance(*job)) return;
  }
}

// Returns whether the job has finished.
bool Executor::Advance(Job& job) {
  bool goes_on = false;
  try {
    goes_on = RunPhases(job);
  } catch (...) {
    job.error = std::current_exception();
  }
  if (goes_on) return false;
  if (job.outbox) return jobs_.Drop(job), true;
  if (job.has_ticket) learning_order_.RemoveFirst();
  job.finished.store(true, std::memory_order_release);
  job.done.Notify();
  return true;
}

// As far as this thread goes alone. Whether other threads go on.
bool Executor::RunPhases(Job& job) {
  while (NextPhase(job)) {
    if (SharePhase(job)) return true;
    RunPhase(job, job.envs);
  }
  return false;
}

void Executor::CompleteRoot(const Job& job, std::span<const std::uint32_t> envs) {
  const bool any_begins = HasResets(job);
  ForEachRun(envs, [&](std::uint32_t first, std::uint32_t count) {
    const Rows done = job.out.RowsFrom(envs_.layout().done, first);
    for (std::size_t i = 0; i < job.out.base.size(); ++i) {
      if (!job.root.base[i] || !job.out.base[i] || job.root.base[i] == job.out.base[i]) continue;
      const Rows from = job.out.RowsFrom(i, first), to = job.root.RowsFrom(i, first);
      if (any_begins) {
        CopyRowsWhereNot(done, from, to, job.out.row_bytes[i], count);
      } else {
        CopyRows(from, to, job.out.row_bytes[i], count);
      }
    }
  });
}

// After what has to be known of all rows before that phase begins. False: there is none.
bool Executor::NextPhase(Job& job) {
  if (job.phase == Phase::kRoot || !HasFurtherPhases(job)) return false;
  const std::size_t last = job.chain->num_phases();
  const bool begins = job.phase == Phase::kVisits;
  Phase phase = begins ? (job.op == Op::kReset ? Phase::kResetRows : Phase::kStepRows) : job.phase;
  std::size_t number = begins ? 1 : job.chain_phase + 1;
  while (true) {
    const bool of_resets = phase == Phase::kResetRows;
    while (number < last && !job.chain->HasStages(number, WhenOf(of_resets))) ++number;
    if (number < last) {
      Learn(job, number, of_resets);
      job.phase = phase;
      job.chain_phase = number;
      return true;
    }
    if (of_resets || !HasResets(job)) break;
    phase = Phase::kResetRows;
    number = 1;
  }
  job.phase = Phase::kRoot;
  return job.completes_root || HasResets(job);
}

void Executor::Learn(Job& job, std::size_t chain_phase, bool of_resets) {
  // At a reset the statistics take in what all envs now show, as TorchRL's transforms do.
  const bool all_show = job.op == Op::kReset;
  const std::span<const std::uint32_t> envs = job.envs, none;
  const BatchRows rows(job.out, job.root, all_show ? envs_.all() : envs, of_resets && !all_show,
                       envs_.layout().done, all_show ? envs : none);
  job.chain->Learn(job, chain_phase, WhenOf(of_resets), rows);
}

void Executor::RunPhase(const Job& job, std::span<const std::uint32_t> envs) {
  if (job.phase == Phase::kRoot) return CompleteRoot(job, envs);
  const bool of_resets = job.phase == Phase::kResetRows, all = !of_resets || job.op == Op::kReset;
  const auto when = WhenOf(of_resets);
  ChainRunner runner(job, all ? job.out : job.root);
  ForEachRun(envs, [&](std::uint32_t first, std::uint32_t count) {
    if (all) return runner.Run(job.chain_phase, when, first, count);
    for (std::uint32_t env = first; env < first + count; ++env) {
      if (!IsDone(job, env)) continue;
      runner.Run(job.chain_phase, when, env, 1);
    }
  });
}

}  // namespace torchrl_pool::core
