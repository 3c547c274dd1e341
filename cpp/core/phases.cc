#include "phases.h"

#include "chain.h"

namespace torchrl_pool::core {
namespace {

using Phase = Job::Phase;

// A job that was interrupted is left as it is: its results are not read.
bool HasFurtherPhases(const Job& job) {
  return !job.outbox && job.faults.empty() && !job.error && !job.cancelled.load(std::memory_order_relaxed);
}

bool HasResets(const Job& job) { return job.resets.load(std::memory_order_relaxed) > 0; }

// Visits complete the root where they are asked to, but for what a later phase of the chain has written.
bool HasRootPhase(const Job& job) {
  if (job.completes_root) return !CompletesRootInVisits(job);
  return job.op == Op::kStepAndReset && HasResets(job);
}

// Begins the first phase of the chain from `chain_phase` on that has something to do, if any has.
Next Enter(const Layout& layout, std::span<const std::uint32_t> all, Job& job, Phase phase,
           std::size_t chain_phase) {
  if (!job.chain) return Next::kNone;
  const bool resets = phase == Phase::kResetRows;
  const auto when = resets ? Chain::When::kReset : Chain::When::kStep;
  const Chain& chain = *job.chain;
  while (chain_phase < chain.num_phases() && !chain.HasStages(chain_phase, when)) ++chain_phase;
  if (chain_phase >= chain.num_phases()) return Next::kNone;
  // At a reset the statistics take in what all envs now show, as TorchRL's transforms do.
  const bool all_show = job.op == Op::kReset;
  const std::span<const std::uint32_t> envs = job.envs;
  const bool takes_root = resets && !all_show;
  const BatchRows rows(job.out, job.root, all_show ? all : envs, takes_root, layout.done,
                       all_show ? envs : std::span<const std::uint32_t>{});
  if (!chain.Learn(job, chain_phase, when, rows)) return Next::kLater;
  job.phase = phase;
  job.chain_phase = chain_phase;
  return Next::kPhase;
}

}  // namespace

bool CompletesRootInVisits(const Job& job) {
  return job.completes_root && (!job.chain || job.chain->num_phases() == 1);
}

void CompleteRoot(const Layout& layout, const Job& job, std::span<const std::uint32_t> envs) {
  const bool may_reset = job.op == Op::kStepAndReset;
  ForEachRun(envs, [&](std::uint32_t first, std::uint32_t count) {
    const Rows done = job.out.RowsFrom(layout.done, first);
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

Next NextPhase(const Layout& layout, std::span<const std::uint32_t> all, Job& job) {
  if (job.phase == Phase::kRoot || !HasFurtherPhases(job)) return Next::kNone;
  Phase phase = job.phase;
  std::size_t next = job.chain_phase + 1;
  if (phase == Phase::kVisits) {
    phase = job.op == Op::kReset ? Phase::kResetRows : Phase::kStepRows;
    next = 1;
  }
  const Next entered = Enter(layout, all, job, phase, next);
  if (entered != Next::kNone) return entered;
  const bool resets_follow = phase == Phase::kStepRows && job.op == Op::kStepAndReset && HasResets(job);
  if (resets_follow) {
    const Next resets = Enter(layout, all, job, Phase::kResetRows, 1);
    if (resets != Next::kNone) return resets;
  }
  job.phase = Phase::kRoot;
  return HasRootPhase(job) ? Next::kPhase : Next::kNone;
}

void RunPhase(const Layout& layout, const Job& job, std::span<const std::uint32_t> envs) {
  if (job.phase == Phase::kRoot) return CompleteRoot(layout, job, envs);
  const bool resets = job.phase == Phase::kResetRows, all = !resets || job.op == Op::kReset;
  const auto when = resets ? Chain::When::kReset : Chain::When::kStep;
  ChainRunner runner(job, all ? job.out : job.root);
  ForEachRun(envs, [&](std::uint32_t first, std::uint32_t count) {
    if (all) return runner.Run(job.chain_phase, when, first, count);
    for (std::uint32_t env = first; env < first + count; ++env) {
      if (*job.out.Row(layout.done, env) == std::byte{0}) continue;
      runner.Run(job.chain_phase, when, env, 1);
    }
  });
}

}  // namespace torchrl_pool::core
