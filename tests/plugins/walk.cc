// The smallest whole env: a step to the left or to the right until the goal is reached.
#include "torchrl_pool/env.h"

namespace pool = torchrl_pool;

namespace {

class Walk {
 public:
  struct Options {
    double goal = 3.0;

    template <class Visitor>
    void Visit(Visitor& visit) {
      visit("goal", goal, "position to reach");
    }
  };

  static pool::Specs MakeSpecs(const Options&) {
    return {pool::Observation("observation", pool::Box<double>({1})),
            pool::Action("action", pool::Discrete(2), "left, right")};
  }

  explicit Walk(const Options& options) : options_(options) {}

  void Seed(pool::Entropy entropy) { rng_ = pool::Rng(entropy); }

  void Reset(pool::Row& row) {
    x_ = rng_.Normal(0, 0.5);
    row.Out<double>()[0] = x_;
  }

  pool::Outcome Step(pool::Row& row) {
    x_ += row.Action<std::int64_t>()[0] == 1 ? 1 : -1;
    row.Out<double>()[0] = x_;
    return {.reward = -1, .terminated = x_ >= options_.goal};
  }

 private:
  const Options& options_;
  pool::Rng rng_;
  double x_ = 0;
};

const bool registered = pool::Register<Walk>({.id = "Walk-v0", .max_episode_steps = 20});

}  // namespace

TORCHRL_POOL_PLUGIN("walk", "1.0")
