// An env whose steps compute, or sleep, for as long as they are told.
#include <chrono>
#include <thread>

#include "torchrl_pool/env.h"

namespace pool = torchrl_pool;

namespace {

class Timed {
 public:
  struct Options {
    double compute_ns = 0;
    double sleep_us = 0;

    template <class Visitor>
    void Visit(Visitor& visit) {
      visit("compute_ns", compute_ns, "time for which a step computes", {.minimum = 0});
      visit("sleep_us", sleep_us, "time for which it sleeps then", {.minimum = 0});
    }
  };

  static pool::Specs MakeSpecs(const Options&) {
    return {pool::Observation("observation", pool::Box<float>({1})),
            pool::Action("action", pool::Discrete(2))};
  }

  explicit Timed(const Options& options) : options_(options) {}
  void Seed(pool::Entropy) {}
  void Reset(pool::Row& row) { row.Out<float>(0)[0] = 0; }

  pool::Outcome Step(pool::Row& row) {
    using Nanoseconds = std::chrono::duration<double, std::nano>;
    const auto start = std::chrono::steady_clock::now();
    while (Nanoseconds(std::chrono::steady_clock::now() - start).count() < options_.compute_ns) {
    }
    if (options_.sleep_us > 0) {
      std::this_thread::sleep_for(std::chrono::duration<double, std::micro>(options_.sleep_us));
    }
    row.Out<float>(0)[0] = 1;
    return {.reward = 1, .terminated = false};
  }

 private:
  const Options& options_;
};

const bool registered = pool::Register<Timed>({.id = "Timed-v0"});

}  // namespace

TORCHRL_POOL_PLUGIN("scale", "1.0")
