// The memory that a pool and its worker processes share: rows for each env, and a mailbox for each worker.
//
//            request: op, envs                          their rows are written
//   pool ─────────────────────────> worker's mailbox ───────────────────────────> count of finished envs
//     ^                                                                                     │
//     └──────────────── looks at the counts, or sleeps until its bell is rung <─────────────┘
//
// A worker does what it is asked for in that order, env by env, so a count of finished envs says which they
// are. Rows belong to the worker from the request on until their env is counted, and to the pool otherwise.
//
// An env may run code that writes anywhere. So each side keeps its own counts, and takes from here only what
// it can check: no word of this memory, whatever it holds, lets either of them read or write beyond.
#ifndef TORCHRL_POOL_CORE_WORKERS_ARENA_H_
#define TORCHRL_POOL_CORE_WORKERS_ARENA_H_

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cache_line.h"
#include "plan.h"
#include "workers/doorbell.h"

namespace torchrl_pool::core {

// One command to a worker, for consecutive envs of its own.
struct Request {
  Op op = Op::kReset;
  bool seed_only = false;  // kReset: nobody wants an observation
  std::uint32_t first = 0, count = 0;

  std::uint64_t Pack() const {
    return std::uint64_t{first} << 34 | std::uint64_t{count} << 3 | static_cast<std::uint64_t>(op) << 1 |
           seed_only;
  }
  static Request Unpack(std::uint64_t bits) {
    return {static_cast<Op>(bits >> 1 & 3), (bits & 1) != 0, static_cast<std::uint32_t>(bits >> 34),
            static_cast<std::uint32_t>(bits >> 3 & 0x7fffffff)};
  }
};

struct Mailbox {
  Doorbell doorbell;                                            // rung by the pool
  alignas(kCacheLine) std::atomic<std::uint64_t> posted{0};     // requests so far
  std::atomic<std::uint64_t> begin{0};                          // the first request that is its worker's
  std::atomic<std::uint64_t> asked{0};                          // envs so far
  std::atomic<std::uint32_t> has_message{0};                    // in the worker's channel, beside all this
  alignas(kCacheLine) std::atomic<std::uint64_t> finished{0};   // envs so far, by the worker
  std::atomic<std::uint64_t> begun{0};                          // and those of requests that it has taken up
  std::atomic<std::uint64_t> steps{0}, step_ns{0};              // steps so far, and the time that they took
  alignas(kCacheLine) std::atomic<std::uint64_t> notify_at{0};  // how many are worth waking the pool for
};

// What one operation of an env has led to, and what it begins with.
struct alignas(kCacheLine) EnvCell {
  enum State : std::uint8_t { kNone, kOk, kFailed };
  static constexpr std::uint32_t kMaxWords = 8;
  static constexpr std::uint32_t kTooManyWords = 255;

  State step = kNone;  // of the rows of a step
  State root = kNone;  // of the rows of a reset
  // Flags, as bytes: whatever a worker has written there can be read.
  std::uint8_t terminated = 0, truncated = 0;            // of a step
  std::uint8_t root_terminated = 0, root_truncated = 0;  // of a reset
  std::uint8_t is_last = 0;     // asked for: the step that is the last one of its episode, however it goes
  double reward = 0;            // of a step, where there is one for the whole env; else NaN
  std::uint64_t note = 0;       // of a reset: under which number its options were told; 0: it has none
  std::uint32_t num_words = 0;  // of the seed; 0: none
  std::uint32_t words[kMaxWords] = {};
  std::uint32_t message_bytes = 0;  // why it has failed
};

struct ArenaShape {
  std::vector<std::uint32_t> first_env;                 // of each worker, and the number of envs
  std::vector<std::size_t> action_bytes, output_bytes;  // of one env's row of each entry

  int num_workers() const { return static_cast<int>(first_env.size()) - 1; }
  std::uint32_t num_envs() const { return first_env.back(); }
};

class Arena {
 public:
  static constexpr std::size_t kMessageBytes = 1 << 14;

  // Maps the memory behind a descriptor, which both sides know to have this shape. Who makes it sizes and
  // fills it. Throws PoolError.
  Arena(int descriptor, ArenaShape shape, bool make);
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  const ArenaShape& shape() const { return shape_; }
  std::byte* data() const { return memory_; }
  std::size_t size() const { return size_; }

  Doorbell& bell() const { return *At<Doorbell>(0); }
  Mailbox& mailbox(int worker) const { return At<Mailbox>(mailboxes_)[worker]; }
  // So many requests at most are under way at a worker.
  std::uint64_t num_requests(int worker) const;
  // Where a worker's request of this number is.
  std::atomic<std::uint64_t>& request(int worker, std::uint64_t number) const;
  EnvCell& cell(std::uint32_t env) const { return At<EnvCell>(cells_)[env]; }

  // Offsets of env 0's row; the others follow.
  const std::vector<std::size_t>& actions() const { return actions_; }
  const std::vector<std::size_t>& outputs() const { return outputs_; }  // of steps
  const std::vector<std::size_t>& roots() const { return roots_; }      // of resets

  std::byte* ActionRow(std::size_t entry, std::uint32_t env) const {
    return memory_ + actions_[entry] + env * shape_.action_bytes[entry];
  }
  std::byte* OutputRow(std::size_t entry, std::uint32_t env) const {
    return memory_ + outputs_[entry] + env * shape_.output_bytes[entry];
  }
  std::byte* RootRow(std::size_t entry, std::uint32_t env) const {
    return memory_ + roots_[entry] + env * shape_.output_bytes[entry];
  }

  // Of all workers: how many steps they have made, and how long these took.
  std::pair<std::uint64_t, std::chrono::nanoseconds> StepTime() const;

  std::string MessageOf(std::uint32_t env) const;
  void SetMessage(std::uint32_t env, std::string_view message) const;  // its last part, if it is too long

 private:
  template <class T>
  T* At(std::size_t offset) const {
    return reinterpret_cast<T*>(memory_ + offset);
  }

  const ArenaShape shape_;
  std::size_t mailboxes_ = 0, cells_ = 0, messages_ = 0, size_ = 0;
  std::vector<std::size_t> requests_, actions_, outputs_, roots_;
  std::byte* memory_ = nullptr;
};

}  // namespace torchrl_pool::core

#endif  // TORCHRL_POOL_CORE_WORKERS_ARENA_H_
