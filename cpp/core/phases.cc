// What a job does once all its visits are over: the later phases of its chain, and the rest of the root.
#include "chain.h"
#include "executor.h"

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

bool Executor::CompletesRootInVisits(const Job& job) {
  return job.completes_root && job.chain->num_phases() == 1;
}

void Executor::CompleteRoot(const Job& job, std::span<const std::uint32_t> envs) {
  const bool may_reset = job.op == Op::kStepAndReset;
  ForEachRun(envs, [&](std::uint32_t first, std::uint32_t count) {
    const Rows done = job.out.RowsFrom(envs_.layout().done, first);
    for (std::size_t i = 0; i < job.out.base.size(); ++i) {
      if (!job.root.base[i] || !job.out.base[i] || job.root.base[i] == job.out.base[i]) continue;
      const Rows from = job.out.RowsFrom(i, first), to = job.root.RowsFrom(i, first);
      if (may_reset) {
        CopyRowsWhereNot(done, from, to, job.out.row_bytes[i], count);
      } else {
        CopyRows(from, to, job.out.row_bytes[i], count);
      }
    }
  });
}

// After what has to be known of all rows before that phase begins.
Executor::Next Executor::NextPhase(Job& job) {
  if (job.phase == Phase::kRoot || !HasFurtherPhases(job)) return Next::kNone;
  const std::size_t last = job.chain->num_phases();
  const bool begins = job.phase == Phase::kVisits;
  Phase phase = begins ? (job.op == Op::kReset ? Phase::kResetRows : Phase::kStepRows) : job.phase;
  std::size_t number = begins ? 1 : job.chain_phase + 1;
  while (true) {
    const bool of_resets = phase == Phase::kResetRows;
    while (number < last && !job.chain->HasStages(number, WhenOf(of_resets))) ++number;
    if (number < last) {
      if (!Learn(job, number, of_resets)) return Next::kLater;
      job.phase = phase;
      job.chain_phase = number;
      return Next::kPhase;
    }
    if (of_resets || job.op != Op::kStepAndReset || !HasResets(job)) break;
    phase = Phase::kResetRows;
    number = 1;
  }
  job.phase = Phase::kRoot;
  // Visits complete the root where they are asked to, but for what a later phase of the chain has written.
  const bool has_root =
      job.completes_root ? !CompletesRootInVisits(job) : job.op == Op::kStepAndReset && HasResets(job);
  return has_root ? Next::kPhase : Next::kNone;
}

bool Executor::Learn(Job& job, std::size_t chain_phase, bool of_resets) {
  // At a reset the statistics take in what all envs now show, as TorchRL's transforms do.
  const bool all_show = job.op == Op::kReset;
  const std::span<const std::uint32_t> envs = job.envs, none;
  const BatchRows rows(job.out, job.root, all_show ? envs_.all() : envs, of_resets && !all_show,
                       envs_.layout().done, all_show ? envs : none);
  return job.chain->Learn(job, chain_phase, WhenOf(of_resets), rows);
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
