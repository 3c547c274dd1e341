// What is done with a ticket's envs, whoever does it.
#include "crew.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "chain.h"
#include "errors.h"
#include "perturb.h"
#include "phases.h"

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
  scratch.results.assign(envs.size(), Result::kSkipped);
  scratch.faults.clear();
  if (watch) watch->Begin({&ticket, envs[0], FirstStepOf(ticket.op, envs_.slot(envs[0]))});
  for (std::size_t i = 0; i < envs.size(); ++i) {
    if (ticket.cancelled.load(std::memory_order_relaxed)) break;
    const std::uint32_t env = envs[i];
    EnvSlot& slot = ticket.op == Op::kCreate ? envs_.NewSlot(env) : envs_.slot(env);
    scratch.Note(i, env, visitor.Visit(env, slot));
  }
  if (ticket.chain) RunChain(ticket, envs, visitor, scratch);
  if (watch && !watch->End()) return false;
  if (CompletesRootInVisits(ticket)) CompleteRoot(envs_.layout(), ticket, envs);
  return true;
}

void Crew::RunChain(const Ticket& ticket, std::span<const std::uint32_t> envs, Visitor& visitor,
                    Scratch& scratch) {
  ChainRunner out(ticket, ticket.out);
  const auto when = ticket.op == Op::kReset ? Chain::When::kReset : Chain::When::kStep;
  const auto& results = scratch.results;
  for (std::size_t begin = 0, end = 0; begin < envs.size(); begin = end) {
    end = begin + 1;
    if (results[begin] != Result::kOk) continue;
    while (end < envs.size() && results[end] == Result::kOk && envs[end] == envs[end - 1] + 1) ++end;
    out.Run(0, when, envs[begin], static_cast<std::uint32_t>(end - begin));
  }
  if (ticket.op != Op::kStepAndReset) return;
  const Rows done = ticket.out.RowsFrom(envs_.layout().done, 0);
  std::optional<ChainRunner> root;
  for (std::size_t i = 0; i < envs.size(); ++i) {
    const std::uint32_t env = envs[i];
    if (results[i] != Result::kOk || *done.From(env).base == std::byte{0}) continue;
    scratch.Note(i, env, visitor.BeginNext(env, envs_.slot(env)));
    if (results[i] != Result::kReset) continue;
    if (!root) root.emplace(ticket, ticket.root);
    root->Run(0, Chain::When::kReset, env, 1);
  }
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
