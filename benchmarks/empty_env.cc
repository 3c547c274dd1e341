// An env that does nothing, as a plugin; and the same class called in a plain loop, for comparison.
#include "torchrl_pool/env.h"

namespace pool = torchrl_pool;

namespace {

class Empty {
 public:
  struct Options {
    template <class Visitor>
    void Visit(Visitor&) {}
  };
  static pool::Specs MakeSpecs(const Options&) {
    return {pool::Observation("observation", pool::Box<float>({1})),
            pool::Action("action", pool::Discrete(2))};
  }
  explicit Empty(const Options&) {}
  void Seed(pool::Entropy) {}
  void Reset(pool::Row& row) { row.Out<float>()[0] = 0; }
  __attribute__((noinline)) pool::Outcome Step(pool::Row& row) {
    row.Out<float>()[0] = static_cast<float>(row.Action<std::int64_t>()[0]);
    return {.reward = 1};
  }
};

const bool registered = pool::Register<Empty>({.id = "Empty-v0", .description = "does nothing"});

}  // namespace

TORCHRL_POOL_PLUGIN("empty", "1.0")

// `calls` times a step of each env, which writes what a pool's batch holds, as directly as C++ can.
extern "C" __attribute__((visibility("default"))) void direct_loop(std::int64_t calls, std::int64_t num_envs,
                                                                   const std::int64_t* action,
                                                                   float* observation, float* reward,
                                                                   bool* terminated, bool* truncated,
                                                                   bool* done) {
  std::vector<Empty> envs(static_cast<std::size_t>(num_envs), Empty({}));
  for (std::int64_t call = 0; call < calls; ++call) {
    for (std::int64_t i = 0; i < num_envs; ++i) {
      const void* actions[] = {action + i};
      void* outputs[] = {observation + i};
      pool::Row row(actions, outputs);
      const pool::Outcome outcome = envs[static_cast<std::size_t>(i)].Step(row);
      reward[i] = static_cast<float>(outcome.reward);
      terminated[i] = outcome.terminated;
      truncated[i] = outcome.truncated;
      done[i] = outcome.terminated || outcome.truncated;
    }
  }
}
