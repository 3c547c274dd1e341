// Visits, deliveries and phases, the same for both executors.
#include "executor.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "chain.h"
#include "errors.h"
#include "perturb.h"
#include "phases.h"
#include "state_ops.h"

namespace torchrl_pool::core {
namespace {

// The step that a visit begins with, as EnvFault's.
std::int64_t FirstStepOf(Op op, const EnvSlot& slot) {
  if (op == Op::kCreate) return EnvFault::kInCreation;
  if (IsStateOp(op)) return EnvFault::kInStateOp;
  return op == Op::kReset ? EnvFault::kInReset : slot.elapsed_steps + 1;
}

}  // namespace

[[gnu::flatten]] bool Executor::VisitEnvs(Job& job, std::span<const std::uint32_t> envs, Scratch& scratch,
                                          VisitWatch* watch) {
  if (watch) watch->Begin({&job, envs[0], FirstStepOf(job.op, envs_.slot(envs[0]))});
  std::exception_ptr error;
  try {
    VisitAll(job, envs, scratch);
  } catch (...) {
    error = std::current_exception();
  }
  if (watch && !watch->End()) return false;
  if (error) std::rethrow_exception(error);
  if (CompletesRootInVisits(job)) CompleteRoot(envs_.layout(), job, envs);
  return true;
}

void Executor::VisitAll(Job& job, std::span<const std::uint32_t> envs, Scratch& scratch) {
  BeginVisits(job, envs, envs.size(), scratch);
  Visitor visitor(envs_.layout(), job, scratch);
  for (std::size_t i = 0; i < envs.size(); ++i) {
    if (job.cancelled.load(std::memory_order_relaxed)) break;
    const std::uint32_t& env = envs[i];
    EnvSlot& slot = job.op == Op::kCreate ? envs_.NewSlot(env) : envs_.slot(env);
    if (IsStateOp(job.op)) {
      VisitStateOp(envs_.layout(), job, static_cast<std::size_t>(&env - job.envs.data()), slot);
      scratch.results[i] = Result::kOk;
    } else {
      scratch.Note(i, env, visitor.Visit(env, slot));
    }
  }
  if (!job.chain) return;
  RunChain(job, envs, scratch);
  std::optional<ChainRunner> root;
  for (std::size_t i = 0; job.op == Op::kStepAndReset && i < envs.size(); ++i) {
    if (scratch.results[i] != Result::kOk || !IsDone(job, envs[i])) continue;
    BeginNext(job, i, envs[i], visitor, scratch, root);
  }
}

void Executor::BeginVisits(const Job& job, std::span<const std::uint32_t> recorded, std::size_t count,
                           Scratch& scratch) {
  for (const RecordedColumn& column : job.recorded) {
    if (recorded.empty()) break;
    CopyRows(column.from.From(recorded[0]), column.to.From(recorded[0]), column.row_bytes, recorded.size());
  }
  scratch.results.assign(count, Result::kSkipped);
  scratch.faults.clear();
}

void Executor::RunChain(const Job& job, std::span<const std::uint32_t> envs, const Scratch& scratch) {
  ChainRunner out(job, job.out);
  const auto when = job.op == Op::kReset ? Chain::When::kReset : Chain::When::kStep;
  const auto& results = scratch.results;
  for (std::size_t begin = 0, end = 0; begin < envs.size(); begin = end) {
    end = begin + 1;
    if (results[begin] != Result::kOk) continue;
    while (end < envs.size() && results[end] == Result::kOk && envs[end] == envs[end - 1] + 1) ++end;
    out.Run(0, when, envs[begin], static_cast<std::uint32_t>(end - begin));
  }
}

bool Executor::IsDone(const Job& job, std::uint32_t env) const {
  return *job.out.RowsFrom(envs_.layout().done, env).base != std::byte{0};
}

void Executor::BeginNext(const Job& job, std::size_t i, std::uint32_t env, Visitor& visitor, Scratch& scratch,
                         std::optional<ChainRunner>& root) {
  scratch.Note(i, env, visitor.BeginNext(env, envs_.slot(env)));
  if (scratch.results[i] != Result::kReset) return;
  if (!root) root.emplace(job, job.root);
  root->Run(0, Chain::When::kReset, env, 1);
}

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
  Advance(job);
}

void Executor::AdvanceIfStalled(Job& job) {
  if (job.is_stalled.load(std::memory_order_relaxed) &&
      job.is_stalled.exchange(false, std::memory_order_acquire)) {
    Advance(job);
  }
}

void Executor::Advance(Job& job) {
  if (learning_order_.StallsUnlessFirst(job)) return;
  Next next = Next::kNone;
  try {
    next = RunPhases(job);
  } catch (...) {
    job.error = std::current_exception();
  }
  if (next == Next::kPhase) return;
  if (next == Next::kLater) {
    job.is_stalled.store(true, std::memory_order_release);
    return (void)job.done.Notify();
  }
  if (job.outbox) return (void)jobs_.Drop(job);
  Job* const following = learning_order_.Remove(job);
  job.finished.store(true, std::memory_order_release);
  job.done.Notify();
  if (following) AdvanceIfStalled(*following);
}

}  // namespace torchrl_pool::core
