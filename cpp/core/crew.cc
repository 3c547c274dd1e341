// What is done with a ticket's envs, whoever does it.
#include "crew.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "errors.h"
#include "outbox.h"
#include "perturb.h"
#include "root.h"

namespace torchrl_pool::core {
namespace {

// The step that a visit begins with, as EnvFault's.
std::int64_t FirstStepOf(Op op, const EnvSlot& slot) {
  if (op == Op::kCreate) return EnvFault::kInCreation;
  return op == Op::kReset ? EnvFault::kInReset : slot.elapsed_steps + 1;
}

}  // namespace

bool Crew::VisitEnvs(Ticket& ticket, std::span<const std::uint32_t> envs, Scratch& scratch,
                     VisitWatch* watch) {
  for (const RecordedColumn& column : ticket.recorded) {
    CopyRows(column.from.From(envs[0]), column.to.From(envs[0]), column.row_bytes, envs.size());
  }
  Visitor visitor(envs_.layout(), ticket, scratch);
  scratch.results.clear();
  scratch.faults.clear();
  for (const std::uint32_t env : envs) {
    if (ticket.cancelled.load(std::memory_order_relaxed)) {
      scratch.results.push_back(Result::kSkipped);
      continue;
    }
    EnvSlot& slot = ticket.op == Op::kCreate ? envs_.NewSlot(env) : envs_.slot(env);
    if (watch) watch->Begin({&ticket, env, FirstStepOf(ticket.op, slot)});
    const Result result = visitor.Visit(env, slot);
    if (watch && !watch->End()) return false;
    scratch.results.push_back(result);
    if (result == Result::kFailed) {
      scratch.faults.push_back({env, MessageOf(scratch.error), scratch.step});
    }
  }
  if (CompletesRootInVisits(ticket)) CompleteRoot(envs_.layout(), ticket, envs);
  return true;
}

void Crew::Deliver(Ticket& ticket, std::span<const std::uint32_t> envs, std::span<const Result> results,
                   std::vector<EnvFault>& faults) {
  if (ticket.outbox) {
    ticket.outbox->Deliver(ticket.op, envs, results, faults);
  } else {
    const auto resets = std::count(results.begin(), results.end(), Result::kReset);
    if (resets > 0) ticket.resets.fetch_add(static_cast<std::uint32_t>(resets), std::memory_order_relaxed);
    if (!faults.empty()) {
      std::lock_guard lock(ticket.faults_mutex);
      std::move(faults.begin(), faults.end(), std::back_inserter(ticket.faults));
    }
  }
  CountDone(ticket, static_cast<std::uint32_t>(envs.size()));
}

void Crew::CountDone(Ticket& ticket, std::uint32_t count) {
  Perturb();
  if (ticket.remaining.fetch_sub(count, std::memory_order_acq_rel) != count) return;
  if (!RunPhases(ticket)) return;
  if (ticket.outbox) return (void)tickets_.Drop(ticket);
  ticket.finished.store(true, std::memory_order_release);
  ticket.done.Notify();
}

}  // namespace torchrl_pool::core
