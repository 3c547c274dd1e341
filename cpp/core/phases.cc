#include "phases.h"

#include "chain.h"
#include "root.h"

namespace torchrl_pool::core {
namespace {

using Phase = Ticket::Phase;

// What was cut short is left as it is: nobody looks at it.
bool HasFurtherPhases(const Ticket& ticket) {
  return !ticket.outbox && ticket.faults.empty() && !ticket.cancelled.load(std::memory_order_relaxed);
}

bool HasResets(const Ticket& ticket) { return ticket.resets.load(std::memory_order_relaxed) > 0; }

// Visits complete the root where they are asked to, but for what a later phase of the chain has written.
bool HasRootPhase(const Ticket& ticket) {
  if (ticket.op != Op::kStepAndReset) return false;
  return CompletesRootInVisits(ticket) ? false : ticket.completes_root || HasResets(ticket);
}

bool IsOver(const Ticket& ticket, std::size_t chain_phase) {
  return !ticket.chain || chain_phase >= ticket.chain->num_phases();
}

bool Enter(const Layout& layout, std::span<const std::uint32_t> all, Ticket& ticket, Phase phase,
           std::size_t chain_phase) {
  ticket.phase = phase;
  ticket.chain_phase = chain_phase;
  const bool resets = phase == Phase::kResetRows;
  // At a reset the statistics take in what all envs now show, as TorchRL's transforms do.
  const auto envs = ticket.op == Op::kReset ? all : std::span(ticket.envs);
  const bool takes_root = resets && ticket.op == Op::kStepAndReset;
  ticket.chain->Learn(ticket, chain_phase, resets ? Chain::When::kReset : Chain::When::kStep,
                      {ticket.out, ticket.root, envs, takes_root, layout.done});
  return true;
}

}  // namespace

bool NextPhase(const Layout& layout, std::span<const std::uint32_t> all, Ticket& ticket) {
  if (ticket.phase == Phase::kRoot || !HasFurtherPhases(ticket)) return false;
  if (ticket.phase == Phase::kVisits && !IsOver(ticket, 1)) {
    return Enter(layout, all, ticket, ticket.op == Op::kReset ? Phase::kResetRows : Phase::kStepRows, 1);
  }
  if (ticket.phase != Phase::kVisits && !IsOver(ticket, ticket.chain_phase + 1)) {
    return Enter(layout, all, ticket, ticket.phase, ticket.chain_phase + 1);
  }
  if (ticket.phase == Phase::kStepRows && ticket.op == Op::kStepAndReset && HasResets(ticket)) {
    return Enter(layout, all, ticket, Phase::kResetRows, 1);
  }
  ticket.phase = Phase::kRoot;
  return HasRootPhase(ticket);
}

void RunPhase(const Layout& layout, const Ticket& ticket, std::span<const std::uint32_t> envs) {
  if (ticket.phase == Phase::kRoot) return CompleteRoot(layout, ticket, envs);
  const Chain& chain = *ticket.chain;
  if (ticket.phase == Phase::kStepRows) {
    for (const std::uint32_t env : envs) {
      chain.Run(ticket, ticket.out, ticket.chain_phase, Chain::When::kStep, env);
    }
    return;
  }
  const bool all = ticket.op == Op::kReset;
  for (const std::uint32_t env : envs) {
    if (!all && *ticket.out.Row(layout.done, env) == std::byte{0}) continue;
    chain.Run(ticket, all ? ticket.out : ticket.root, ticket.chain_phase, Chain::When::kReset, env);
  }
}

}  // namespace torchrl_pool::core
