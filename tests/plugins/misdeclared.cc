// Tasks whose declarations nobody can use as they stand, one fault each.
#include "torchrl_pool/env.h"

namespace pool = torchrl_pool;

namespace {

struct Shadowed {
  std::int64_t max_episode_steps = 7;
  void Visit(auto& visit) { visit("max_episode_steps", max_episode_steps, "an argument of PoolEnv's own"); }
};

struct Twice {
  double goal = 1, start = 2;
  void Visit(auto& visit) {
    visit("goal", goal, "one");
    visit("goal", start, "another");
  }
};

struct OutOfRange {
  double goal = -3;
  void Visit(auto& visit) { visit("goal", goal, "below its own minimum", {.minimum = 0}); }
};

template <class TheOptions>
class Still {
 public:
  using Options = TheOptions;

  static pool::Specs MakeSpecs(const Options&) {
    return {pool::Observation("observation", pool::Box<double>({1})),
            pool::Action("action", pool::Discrete(2))};
  }

  explicit Still(const Options&) {}
  void Seed(pool::Entropy) {}
  void Reset(pool::Row& row) { row.Out<double>()[0] = 0; }
  pool::Outcome Step(pool::Row& row) {
    row.Out<double>()[0] = 0;
    return {.reward = 0, .terminated = false};
  }
};

const bool registered[] = {
    pool::Register<Still<Shadowed>>({.id = "Shadowed-v0", .max_episode_steps = 20}),
    pool::Register<Still<Twice>>({.id = "Twice-v0", .max_episode_steps = 20}),
    pool::Register<Still<OutOfRange>>({.id = "OutOfRange-v0", .max_episode_steps = 20}),
};

}  // namespace

TORCHRL_POOL_PLUGIN("misdeclared", "1.0")
