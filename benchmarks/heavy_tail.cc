// An env whose steps take Pareto-distributed times of sleep: most are short, a few are very long.
#include <chrono>
#include <cmath>
#include <thread>

#include "torchrl_pool/env.h"

namespace pool = torchrl_pool;

namespace {

class HeavyTail {
 public:
  struct Options {
    double mean_ms = 1.0;
    double shape = 1.5;
    double limit_ms = 100.0;

    template <class Visitor>
    void Visit(Visitor& visit) {
      visit("mean_ms", mean_ms, "mean time of a step, before the limit", {.minimum = 0});
      visit("shape", shape, "Pareto's exponent: the smaller, the heavier the tail", {.minimum = 1.01});
      visit("limit_ms", limit_ms, "longest time of a step", {.minimum = 0});
    }
  };

  static pool::Specs MakeSpecs(const Options&) {
    return {pool::Observation("observation", pool::Box<float>({1})),
            pool::Action("action", pool::Discrete(2))};
  }

  explicit HeavyTail(const Options& options) : options_(options) {}
  void Seed(pool::Entropy entropy) { rng_ = pool::Rng(entropy); }
  void Reset(pool::Row& row) { row.Out<float>(0)[0] = 0; }

  pool::Outcome Step(pool::Row& row) {
    const double shortest = options_.mean_ms * (options_.shape - 1) / options_.shape;
    const double time = shortest * std::pow(1 - rng_.Random(), -1 / options_.shape);
    std::this_thread::sleep_for(std::chrono::duration<double, std::milli>(std::min(time, options_.limit_ms)));
    row.Out<float>(0)[0] = static_cast<float>(time);
    return {.reward = 1, .terminated = false};
  }

 private:
  const Options& options_;
  pool::Rng rng_;
};

const bool registered = pool::Register<HeavyTail>({.id = "HeavyTail-v0", .max_episode_steps = 1000});

}  // namespace

TORCHRL_POOL_PLUGIN("heavy_tail", "1.0")
