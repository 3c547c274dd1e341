// What an env can be asked to do, and how a job's work is shared out.
#ifndef TORCHRL_POOL_CORE_PLAN_H_
#define TORCHRL_POOL_CORE_PLAN_H_

#include <algorithm>
#include <cstdint>

namespace torchrl_pool::core {

enum class Op {
  kCreate,        // make the simulator
  kReset,         // start an episode, after seeding if there is entropy: writes `out`
  kStep,          // writes `out`
  kStepAndReset,  // writes `out`; where that is done, starts an episode and writes its row of `root`
  kSteps,         // several steps in a row, without resets: each writes a row of `out`
  kSave,          // writes the env's state
  kLoad,          // reads one
  kRender,        // writes a picture
};
constexpr int kNumOps = 8;
constexpr bool IsStep(Op op) { return op == Op::kStep || op == Op::kStepAndReset || op == Op::kSteps; }
// On the state of an env as it is between two calls.
constexpr bool IsStateOp(Op op) { return op == Op::kSave || op == Op::kLoad || op == Op::kRender; }

enum class EnvState : std::uint8_t {
  kReady,     // may do anything
  kUnset,     // never reset
  kInFlight,  // in a job, or received and not yet taken
  kFailed,
  kUnknown,  // was at work for a call that was interrupted
};

constexpr std::uint32_t kMaxEnvs = (1u << 31) - 1;  // of a pool: a queue keeps their numbers in 31 bits

struct Plan {
  int threads = 1;           // that it is worth having, the caller included if it helps
  bool caller_helps = true;  // the waiting thread works too
};

// How many envs a thread takes at once: the fewer are left, the fewer. So threads seldom meet, and end
// together.
struct ChunkSizes {
  std::uint32_t shortest = 1, longest = 1;

  std::uint32_t Of(std::uint32_t rest) const {
    return std::min(rest, std::clamp(rest / 4, shortest, longest));
  }
};

}  // namespace torchrl_pool::core

#endif  // TORCHRL_POOL_CORE_PLAN_H_
