// A job: one submission of work. Which envs do which operation, where they read and write, and its progress.
#ifndef TORCHRL_POOL_CORE_JOB_H_
#define TORCHRL_POOL_CORE_JOB_H_

#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "batch.h"
#include "cache_line.h"
#include "errors.h"
#include "event_count.h"
#include "plan.h"

namespace torchrl_pool::core {

class Chain;
class Outbox;
class ResetOptions;

// How a job's results reach whoever has submitted it.
enum class Delivery : std::uint8_t {
  kAwaited,   // the submitting thread waits for all of them next, and may help
  kLater,     // some thread waits for all of them later
  kOneByOne,  // the outbox gets each env's
};

struct EnvRange {
  std::uint32_t first, count;  // consecutive envs
};

// Rows to copy before a step overwrites them: the inputs of a step, stored next to its results in a batch.
struct RecordedColumn {
  Rows from, to;
  std::size_t row_bytes;
};

// The result of one visit: one operation of one env, by one thread.
enum class Result : std::uint8_t {
  kOk,
  kReset,    // kStepAndReset has started a new episode
  kFailed,   // the fault says why
  kSkipped,  // the job had been cancelled
  kGoesOn    // within the executor: there is more to do, which is not at hand
};

// What a save, a load or a picture reads and writes, for each of the job's envs in their order. Owned by the
// job, since a thread may still write to it when nobody waits any longer.
struct StateOps {
  std::vector<std::vector<std::uint8_t>> states;  // kSave writes them, kLoad reads them
  std::vector<std::uint8_t*> pictures;            // kRender writes them: uint8 [height, width, 3]
  std::shared_ptr<void> owner;                    // of the pictures
  std::vector<EnvState> before;                   // of the envs
  std::vector<std::uint8_t> is_done;
  std::vector<std::exception_ptr> refusals;  // why an env's operation has failed, and changed nothing
};

// A job is filled in, submitted (in flight), finished, and then reused. In flight it runs in phases: the
// first one visits every env; each later one begins when all rows of the one before are done.
//
// May be null: the base of a column of a batch (nobody wants it), `owner` and `cargo` (nobody has to live
// on), an env's entry in `reset_options` (it has none), `outbox` (somebody waits for the whole job),
// `state_ops` (of other operations). `chain` never is.
struct Job {
  Gap before;

  // ---- Set by the submitter, constant while in flight
  Op op = Op::kReset;
  std::span<const std::uint32_t> envs;  // ascending; never empty in flight
  Batch actions;
  Batch out;
  // The root: the entries that the next step reads, as TorchRL's step_and_maybe_reset returns them. It holds
  // the first observation of a new episode where this step has ended one (written by the visit), and a copy
  // of `out` elsewhere. The copies are made in the last phase: if any env has been reset, or if
  // `completes_root`.
  Batch root;
  bool completes_root = false;
  // kStep: of each env of the pool, whether it begins an episode in place of its step, written to `out`; or
  // empty: none does. Such a job's chain has no stages.
  std::vector<std::uint8_t> begins;
  std::uint32_t num_steps = 1;  // kSteps: how many, and so many consecutive rows of each batch are an env's
  std::vector<RecordedColumn> recorded;             // of steps, for consecutive envs
  std::vector<std::vector<std::uint32_t>> entropy;  // kReset: one per env of the pool, empty: none; or empty
  std::vector<std::shared_ptr<const ResetOptions>> reset_options;  // likewise; null: none
  std::uint64_t reset_note =
      0;  // kReset of envs in workers: which options their workers have been told; 0: none
  std::shared_ptr<void> owner;  // of the memory of the batches: kept until no thread can touch it
  Delivery delivery = Delivery::kAwaited;
  // Where the envs were named one by one: their numbers, in the order of the rows of `actions`.
  std::vector<std::uint32_t> order;
  bool is_single = false;  // kOneByOne: each env is received by its number
  std::shared_ptr<void>
      cargo;                // kOneByOne: what the receiver gets back, with the place of each env in `order`
  bool has_ticket = false;  // it learns after those that have been submitted before: see LearningOrder
  Plan plan;                // changed only by the waiting thread, before the job is published
  const Chain* chain = nullptr;         // what follows the pool's own columns: the layout's, or the owner's
  Outbox* outbox = nullptr;             // of results that are delivered one by one; else null
  std::unique_ptr<std::byte[]> copies;  // of `actions`, where the caller may change its own meanwhile
  std::size_t copies_size = 0;
  StateOps* state_ops = nullptr;  // kSave, kLoad, kRender: the owner's

  // ---- Written by the threads that work on it.
  enum class Phase : std::uint8_t { kVisits, kStepRows, kResetRows, kRoot };
  Phase phase = Phase::kVisits;        // changed only between phases
  std::size_t chain_phase = 0;         // likewise
  std::vector<std::byte> learned;      // by the chain's stages, between two phases
  std::atomic<bool> cancelled{false};  // set by the waiting thread: the envs that are left are skipped

  Gap gap;                                  // between what every visit reads and what every chunk changes
  std::atomic<std::uint32_t> remaining{0};  // envs that this phase has still to do
  std::atomic<std::uint32_t> resets{0};     // results of kind kReset
  std::atomic<bool> finished{false};
  EventCount done;  // notified when finished
  std::mutex faults_mutex;
  std::vector<EnvFault> faults;
  std::exception_ptr error;  // an exception that is no env's fault, such as bad_alloc

  // ---- LearningOrder's.
  Job* next_in_order = nullptr;
  bool may_learn = false;

  // ---- JobStore's.
  std::atomic<int> users{0};          // its submitter, and the threads that hang in it
  std::vector<std::uint32_t> chosen;  // memory for `envs`, where they are not all or consecutive

  Op OpOf(std::uint32_t env) const { return !begins.empty() && begins[env] != 0 ? Op::kReset : op; }

  // Calls `act(op, envs)` for each stretch of the job's envs with the same operation.
  template <class Act>
  void ForEachOp(Act&& act) const {
    if (begins.empty()) return act(op, envs);
    for (std::size_t begin = 0; begin < envs.size();) {
      const Op first = OpOf(envs[begin]);
      std::size_t end = begin + 1;
      while (end < envs.size() && OpOf(envs[end]) == first) ++end;
      act(first, envs.subspan(begin, end - begin));
      begin = end;
    }
  }

  // The waiting thread does all the work itself; nothing is queued.
  bool IsInline() const { return delivery == Delivery::kAwaited && plan.caller_helps && plan.threads == 1; }

  Gap after;
};

}  // namespace torchrl_pool::core

#endif  // TORCHRL_POOL_CORE_JOB_H_
