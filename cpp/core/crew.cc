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

[[gnu::flatten]] bool Crew::VisitEnvs(Ticket& ticket, std::span<const std::uint32_t> envs, Scratch& scratch,
                                      VisitWatch* watch) {
  if (watch) watch->Begin({&ticket, envs[0], FirstStepOf(ticket.op, envs_.slot(envs[0]))});
  std::exception_ptr error;
  try {
    VisitAll(ticket, envs, scratch);
  } catch (...) {
    error = std::current_exception();
  }
  if (watch && !watch->End()) return false;
  if (error) std::rethrow_exception(error);
  if (CompletesRootInVisits(ticket)) CompleteRoot(envs_.layout(), ticket, envs);
  return true;
}

void Crew::VisitAll(Ticket& ticket, std::span<const std::uint32_t> envs, Scratch& scratch) {
  BeginVisits(ticket, envs, envs.size(), scratch);
  Visitor visitor(envs_.layout(), ticket, scratch);
  for (std::size_t i = 0; i < envs.size(); ++i) {
    if (ticket.cancelled.load(std::memory_order_relaxed)) break;
    const std::uint32_t env = envs[i];
    EnvSlot& slot = ticket.op == Op::kCreate ? envs_.NewSlot(env) : envs_.slot(env);
    scratch.Note(i, env, visitor.Visit(env, slot));
  }
  if (!ticket.chain) return;
  RunChain(ticket, envs, scratch);
  std::optional<ChainRunner> root;
  for (std::size_t i = 0; ticket.op == Op::kStepAndReset && i < envs.size(); ++i) {
    if (scratch.results[i] != Result::kOk || !IsDone(ticket, envs[i])) continue;
    BeginNext(ticket, i, envs[i], visitor, scratch, root);
  }
}

void Crew::BeginVisits(const Ticket& ticket, std::span<const std::uint32_t> recorded, std::size_t count,
                       Scratch& scratch) {
  for (const RecordedColumn& column : ticket.recorded) {
    if (recorded.empty()) break;
    CopyRows(column.from.From(recorded[0]), column.to.From(recorded[0]), column.row_bytes, recorded.size());
  }
  scratch.results.assign(count, Result::kSkipped);
  scratch.faults.clear();
}

void Crew::RunChain(const Ticket& ticket, std::span<const std::uint32_t> envs, const Scratch& scratch) {
  ChainRunner out(ticket, ticket.out);
  const auto when = ticket.op == Op::kReset ? Chain::When::kReset : Chain::When::kStep;
  const auto& results = scratch.results;
  for (std::size_t begin = 0, end = 0; begin < envs.size(); begin = end) {
    end = begin + 1;
    if (results[begin] != Result::kOk) continue;
    while (end < envs.size() && results[end] == Result::kOk && envs[end] == envs[end - 1] + 1) ++end;
    out.Run(0, when, envs[begin], static_cast<std::uint32_t>(end - begin));
  }
}

bool Crew::IsDone(const Ticket& ticket, std::uint32_t env) const {
  return *ticket.out.RowsFrom(envs_.layout().done, env).base != std::byte{0};
}

void Crew::BeginNext(const Ticket& ticket, std::size_t i, std::uint32_t env, Visitor& visitor,
                     Scratch& scratch, std::optional<ChainRunner>& root) {
  scratch.Note(i, env, visitor.BeginNext(env, envs_.slot(env)));
  if (scratch.results[i] != Result::kReset) return;
  if (!root) root.emplace(ticket, ticket.root);
  root->Run(0, Chain::When::kReset, env, 1);
}

[[gnu::flatten]] void Crew::Deliver(Ticket& ticket, std::span<const std::uint32_t> envs,
                                    std::span<const Result> results, std::vector<EnvFault>& faults) {
  try {
    HandOver(ticket, envs, results, faults);
  } catch (...) {
    return Lose(ticket, envs, std::current_exception());
  }
  CountDone(ticket, static_cast<std::uint32_t>(envs.size()));
}

void Crew::HandOver(Ticket& ticket, std::span<const std::uint32_t> envs, std::span<const Result> results,
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
}

void Crew::Lose(Ticket& ticket, std::span<const std::uint32_t> envs, std::exception_ptr error) {
  if (ticket.outbox) {
    ticket.outbox->DeliverLost(ticket.op, envs);
  } else {
    std::lock_guard lock(ticket.faults_mutex);
    ticket.error = std::move(error);
  }
  CountDone(ticket, static_cast<std::uint32_t>(envs.size()));
}

[[gnu::flatten]] void Crew::CountDone(Ticket& ticket, std::uint32_t count) {
  Perturb();
  if (ticket.remaining.fetch_sub(count, std::memory_order_acq_rel) != count) return;
  GoOn(ticket);
}

void Crew::GoOnIfStalled(Ticket& ticket) {
  if (ticket.is_stalled.load(std::memory_order_relaxed) &&
      ticket.is_stalled.exchange(false, std::memory_order_acquire)) {
    GoOn(ticket);
  }
}

void Crew::GoOn(Ticket& ticket) {
  Next next = Next::kNone;
  try {
    next = RunPhases(ticket);
  } catch (...) {
    ticket.error = std::current_exception();
  }
  if (next == Next::kPhase) return;
  if (next == Next::kLater) {
    ticket.is_stalled.store(true, std::memory_order_release);
    return (void)ticket.done.Notify();
  }
  if (ticket.outbox) return (void)tickets_.Drop(ticket);
  ticket.finished.store(true, std::memory_order_release);
  ticket.done.Notify();
}

}  // namespace torchrl_pool::core
