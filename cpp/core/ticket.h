// One submission of work: which envs do what, where they read and write, and how far it has come.
#ifndef TORCHRL_POOL_CORE_TICKET_H_
#define TORCHRL_POOL_CORE_TICKET_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "errors.h"
#include "home_queue.h"
#include "layout.h"

namespace torchrl_pool::core {

enum class Op {
  kCreate,        // make the simulator
  kReset,         // start an episode, after seeding if there is entropy: writes `out`
  kStep,          // writes `out`
  kStepAndReset,  // writes `out`; where that is done, starts an episode and writes its row of `root`
};
constexpr int kNumOps = 4;

struct Run {
  std::uint32_t first, count;  // consecutive envs
};

// What led to a step, kept beside what follows from it: rows that are copied before their env moves.
struct RecordedColumn {
  Rows from, to;
  std::size_t row_bytes;
};

struct Ticket {
  // Set by the submitter, constant while in flight.
  Op op = Op::kReset;
  Batch actions;
  Batch out;
  Batch root;
  bool completes_root = false;           // rows of `root` where the episode goes on are copied from `out`
  std::vector<RecordedColumn> recorded;  // kStepAndReset
  std::vector<std::vector<std::uint32_t>> entropy;  // kReset: one per env of the pool, empty: none; or empty
  std::vector<std::shared_ptr<const ResetOptions>> reset_options;  // likewise; null: none
  std::vector<Run> runs;                                           // the envs, ascending
  std::uint32_t num_envs = 0;                                      // in all runs

  // Whatever owns the memory of the batches, where nobody waits until the last thread is done: after an
  // interrupted wait, for an env that hangs, and for a group.
  std::shared_ptr<void> keepalive;

  // Written by the threads that run it.
  alignas(kCacheLine) std::atomic<std::uint32_t> remaining{0};
  std::atomic<std::uint32_t> resets{0};  // kStepAndReset: rows of `root` written
  std::mutex faults_mutex;
  std::vector<EnvFault> faults;
};

}  // namespace torchrl_pool::core

#endif  // TORCHRL_POOL_CORE_TICKET_H_
