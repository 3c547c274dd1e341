// An env that counts its steps and goes wrong on demand.
#include <chrono>
#include <thread>

#include "torchrl_pool/env.h"

namespace pool = torchrl_pool;

namespace {

class Fault {
 public:
  struct Options {
    std::int64_t fail_at = -1;
    bool fail_reset = false;
    bool fail_create = false;
    double sleep = 0;
    double gain = 0.4;

    template <class Visitor>
    void Visit(Visitor& visit) {
      visit("fail_at", fail_at, "step of an episode that throws; -1: none");
      visit("fail_reset", fail_reset, "every reset but the first throws");
      visit("fail_create", fail_create, "the constructor throws");
      visit("sleep", sleep, "seconds that a step takes", {.minimum = 0});
      visit("gain", gain, "bound of the action");
    }
  };

  static pool::Specs MakeSpecs(const Options& options) {
    return {pool::Observation("observation", pool::Box<float>({2})),
            pool::Info("steps", pool::Box<std::int64_t>({}), "steps of the episode"),
            pool::Action("action", pool::Box<float>({2}, -options.gain, options.gain))};
  }

  explicit Fault(const Options& options) : options_(options) {
    if (options.fail_create) throw pool::FileNotFound("no such model: nothing.xml");
  }

  void Seed(pool::Entropy entropy) { rng_ = pool::Rng(entropy); }

  void Reset(pool::Row& row) {
    if (options_.fail_reset && resets_++ > 0) throw std::runtime_error("the simulator would not reset");
    steps_ = 0;
    offset_ = rng_.Random();
    Write(row);
  }

  pool::Outcome Step(pool::Row& row) {
    if (options_.sleep > 0) std::this_thread::sleep_for(std::chrono::duration<double>(options_.sleep));
    ++steps_;
    if (steps_ == options_.fail_at)
      throw std::runtime_error("the simulator broke at step " + std::to_string(steps_));
    Write(row);
    return {.reward = row.Action<float>()[0], .terminated = false};
  }

 private:
  void Write(pool::Row& row) {
    row.Out<float>(0)[0] = static_cast<float>(offset_);
    row.Out<float>(0)[1] = static_cast<float>(steps_);
    if (auto* steps = row.Out<std::int64_t>(1)) *steps = steps_;
  }

  const Options& options_;
  pool::Rng rng_;
  double offset_ = 0;
  std::int64_t steps_ = 0;
  int resets_ = 0;
};

const bool registered =
    pool::Register<Fault>({.id = "Fault-v0", .description = "goes wrong on demand", .max_episode_steps = 50});

}  // namespace

TORCHRL_POOL_PLUGIN("fault", "1.0")
