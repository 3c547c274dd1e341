#include "phases.h"

#include "chain.h"

namespace torchrl_pool::core {
namespace {

using Phase = Ticket::Phase;

// What was cut short is left as it is: nobody looks at it.
bool HasFurtherPhases(const Ticket& ticket) {
  return !ticket.outbox && ticket.faults.empty() && !ticket.error &&
         !ticket.cancelled.load(std::memory_order_relaxed);
}

bool HasResets(const Ticket& ticket) { return ticket.resets.load(std::memory_order_relaxed) > 0; }

// Visits complete the root where they are asked to, but for what a later phase of the chain has written.
bool HasRootPhase(const Ticket& ticket) {
  if (ticket.completes_root) return !CompletesRootInVisits(ticket);
  return ticket.op == Op::kStepAndReset && HasResets(ticket);
}

// Begins the first phase of the chain from `chain_phase` on that has something to do, if any has.
Next Enter(const Layout& layout, std::span<const std::uint32_t> all, Ticket& ticket, Phase phase,
           std::size_t chain_phase) {
  if (!ticket.chain) return Next::kNone;
  const bool resets = phase == Phase::kResetRows;
  const auto when = resets ? Chain::When::kReset : Chain::When::kStep;
  const Chain& chain = *ticket.chain;
  while (chain_phase < chain.num_phases() && !chain.HasStages(chain_phase, when)) ++chain_phase;
  if (chain_phase >= chain.num_phases()) return Next::kNone;
  // At a reset the statistics take in what all envs now show, as TorchRL's transforms do.
  const bool all_show = ticket.op == Op::kReset;
  const std::span<const std::uint32_t> envs = ticket.envs;
  const bool takes_root = resets && !all_show;
  const BatchRows rows(ticket.out, ticket.root, all_show ? all : envs, takes_root, layout.done,
                       all_show ? envs : std::span<const std::uint32_t>{});
  if (!chain.Learn(ticket, chain_phase, when, rows)) return Next::kLater;
  ticket.phase = phase;
  ticket.chain_phase = chain_phase;
  return Next::kPhase;
}

}  // namespace

bool CompletesRootInVisits(const Ticket& ticket) {
  return ticket.completes_root && (!ticket.chain || ticket.chain->num_phases() == 1);
}

void CompleteRoot(const Layout& layout, const Ticket& ticket, std::span<const std::uint32_t> envs) {
  const bool may_reset = ticket.op == Op::kStepAndReset;
  ForEachRun(envs, [&](std::uint32_t first, std::uint32_t count) {
    const Rows done = ticket.out.RowsFrom(layout.done, first);
    for (std::size_t i = 0; i < ticket.out.base.size(); ++i) {
      if (!ticket.root.base[i] || !ticket.out.base[i] || ticket.root.base[i] == ticket.out.base[i]) continue;
      const Rows from = ticket.out.RowsFrom(i, first), to = ticket.root.RowsFrom(i, first);
      if (may_reset) {
        CopyRowsWhereNot(done, from, to, ticket.out.row_bytes[i], count);
      } else {
        CopyRows(from, to, ticket.out.row_bytes[i], count);
      }
    }
  });
}

Next NextPhase(const Layout& layout, std::span<const std::uint32_t> all, Ticket& ticket) {
  if (ticket.phase == Phase::kRoot || !HasFurtherPhases(ticket)) return Next::kNone;
  Phase phase = ticket.phase;
  std::size_t next = ticket.chain_phase + 1;
  if (phase == Phase::kVisits) {
    phase = ticket.op == Op::kReset ? Phase::kResetRows : Phase::kStepRows;
    next = 1;
  }
  const Next entered = Enter(layout, all, ticket, phase, next);
  if (entered != Next::kNone) return entered;
  const bool resets_follow = phase == Phase::kStepRows && ticket.op == Op::kStepAndReset && HasResets(ticket);
  if (resets_follow) {
    const Next resets = Enter(layout, all, ticket, Phase::kResetRows, 1);
    if (resets != Next::kNone) return resets;
  }
  ticket.phase = Phase::kRoot;
  return HasRootPhase(ticket) ? Next::kPhase : Next::kNone;
}

void RunPhase(const Layout& layout, const Ticket& ticket, std::span<const std::uint32_t> envs) {
  if (ticket.phase == Phase::kRoot) return CompleteRoot(layout, ticket, envs);
  const bool resets = ticket.phase == Phase::kResetRows, all = !resets || ticket.op == Op::kReset;
  const auto when = resets ? Chain::When::kReset : Chain::When::kStep;
  ChainRunner runner(ticket, all ? ticket.out : ticket.root);
  ForEachRun(envs, [&](std::uint32_t first, std::uint32_t count) {
    if (all) return runner.Run(ticket.chain_phase, when, first, count);
    for (std::uint32_t env = first; env < first + count; ++env) {
      if (*ticket.out.Row(layout.done, env) == std::byte{0}) continue;
      runner.Run(ticket.chain_phase, when, env, 1);
    }
  });
}

}  // namespace torchrl_pool::core
