// One submission of work: which envs do what, where they read and write, and how far it has come.
#ifndef TORCHRL_POOL_CORE_JOB_H_
#define TORCHRL_POOL_CORE_JOB_H_

#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "cache_line.h"
#include "errors.h"
#include "event_count.h"
#include "layout.h"
#include "plan.h"

namespace torchrl_pool::core {

class Chain;
class Outbox;

struct EnvRange {
  std::uint32_t first, count;  // consecutive envs
};

// What led to a step, kept beside what follows from it: rows that are copied before their env moves.
struct RecordedColumn {
  Rows from, to;
  std::size_t row_bytes;
};

// What one visit of an env has led to.
enum class Result : std::uint8_t {
  kOk,
  kReset,   // kStepAndReset has started a new episode
  kFailed,  // the fault says why
  kSkipped  // the job had been cancelled
};

// A job goes   filled in -> in flight -> finished   and is then used again. In flight it is in its first
// phase, in which every env is visited, or in a later one: each begins when the one before it is over.
struct Job {
  [[maybe_unused]] Gap before;

  // ---- Set by the submitter, constant while in flight.
  Op op = Op::kReset;
  std::span<const std::uint32_t> envs;  // ascending; never empty in flight
  Batch actions;
  Batch out;
  // The root is what the next step begins with: the first observation of a new episode where this step has
  // ended one, and what `out` holds elsewhere. Visits write the former. The latter are copied in the second
  // phase, if any env has begun an episode; or by each visit, if `completes_root` asks for all rows at once.
  Batch root;
  bool completes_root = false;
  std::vector<RecordedColumn> recorded;             // of steps, for consecutive envs
  std::vector<std::vector<std::uint32_t>> entropy;  // kReset: one per env of the pool, empty: none; or empty
  std::vector<std::shared_ptr<const ResetOptions>> reset_options;  // likewise; null: none
  std::shared_ptr<void> owner;   // of the memory of the batches: kept until no thread can touch it
  bool at_once = true;           // somebody waits for it from the beginning
  Plan plan;                     // changed only by who waits, before the work is published
  const Chain* chain = nullptr;  // what follows the pool's own columns; the owner keeps it alive
  Outbox* outbox = nullptr;      // takes the results one by one; null: somebody waits for all of them

  // ---- Written by the threads that work on it.
  enum class Phase : std::uint8_t { kVisits, kStepRows, kResetRows, kRoot };
  Phase phase = Phase::kVisits;        // changed while nobody works on it
  std::size_t chain_phase = 0;         // likewise
  std::vector<std::byte> learned;      // by the chain's stages, between two phases
  std::atomic<bool> cancelled{false};  // by whoever waited: no env is visited any more

  [[maybe_unused]] Gap gap;                 // between what every visit reads and what every chunk changes
  std::atomic<std::uint32_t> remaining{0};  // envs that this phase has still to do
  std::atomic<std::uint32_t> resets{0};     // results of kind kReset
  std::atomic<bool> finished{false};
  std::atomic<bool> is_stalled{false};  // between two phases: who waits for it begins the next one
  EventCount done;                      // notified when finished, or stalled
  std::mutex faults_mutex;
  std::vector<EnvFault> faults;
  std::exception_ptr error;  // what has ended it, and is no fault of an env: there was no memory, say

  // ---- JobStore's.
  std::atomic<int> users{0};          // its submitter, and threads that hang in it
  std::vector<std::uint32_t> chosen;  // memory for `envs`, where they are not all or consecutive

  // Whoever waits does all of it, without any queue.
  bool IsInline() const { return at_once && plan.caller_helps && plan.threads == 1; }

  [[maybe_unused]] Gap after;
};

}  // namespace torchrl_pool::core

#endif  // TORCHRL_POOL_CORE_JOB_H_
