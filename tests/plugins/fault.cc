// An env that draws a random number at each step, counts its steps, and goes wrong on demand.
#include <atomic>
#include <chrono>
#include <limits>
#include <string>
#include <thread>

#include "torchrl_pool/env.h"

namespace pool = torchrl_pool;

namespace {

class Fault {
 public:
  struct Options {
    std::string fault = "none";
    std::int64_t at = -1;
    double seconds = 0;
    double sleep = 0;
    double gain = 0.4;

    template <class Visitor>
    void Visit(Visitor& visit) {
      visit("fault", fault, "what goes wrong",
            {.choices = {"none", "throw", "sleep", "loop", "nan", "words"}});
      visit("at", at, "the step of an episode that goes wrong; 0: every reset but the first, -1: creation");
      visit("seconds", seconds, "how long the fault 'sleep' takes", {.minimum = 0});
      visit("sleep", sleep, "seconds that any step takes", {.minimum = 0});
      visit("gain", gain, "bound of the action");
    }
  };

  static pool::Specs MakeSpecs(const Options& options) {
    return {pool::Observation("observation", pool::Box<float>({2}), "random number, steps"),
            pool::Info("steps", pool::Box<std::int64_t>({}), "steps of the episode"),
            pool::Action("action", pool::Box<float>({2}, -options.gain, options.gain))};
  }

  explicit Fault(const Options& options) : options_(options) { GoWrongAt(-1); }

  void Seed(pool::Entropy entropy) { rng_ = pool::Rng(entropy); }

  void Reset(pool::Row& row) {
    if (resets_++ > 0) GoWrongAt(0);
    steps_ = 0;
    Write(row);
  }

  pool::Outcome Step(pool::Row& row) {
    if (options_.sleep > 0) Sleep(options_.sleep);
    GoWrongAt(++steps_);
    Write(row);
    return {.reward = row.Action<float>()[0], .terminated = false};
  }

 private:
  void GoWrongAt(std::int64_t step) {
    nan_ = false;
    if (options_.at != step) return;
    if (options_.fault == "throw") throw std::runtime_error("the simulator broke");
    if (options_.fault == "words") throw std::runtime_error(LongWords());
    if (options_.fault == "sleep") Sleep(options_.seconds);
    if (options_.fault == "nan") nan_ = true;
    std::atomic<bool> for_ever{options_.fault == "loop"};  // atomic: a loop without effects may be left out
    while (for_ever.load()) {
    }
  }

  // More than fits into an error, which ends in the middle of a character.
  static std::string LongWords() {
    std::string words;
    for (int i = 0; i < 1000; ++i) words += "\xc3\xa9";
    return words;
  }

  static void Sleep(double seconds) { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); }

  void Write(pool::Row& row) {
    row.Out<float>(0)[0] = nan_ ? std::numeric_limits<float>::quiet_NaN() : static_cast<float>(rng_.Random());
    row.Out<float>(0)[1] = static_cast<float>(steps_);
    if (auto* steps = row.Out<std::int64_t>(1)) *steps = steps_;
  }

  const Options& options_;
  pool::Rng rng_;
  std::int64_t steps_ = 0;
  int resets_ = 0;
  bool nan_ = false;
};

const bool registered =
    pool::Register<Fault>({.id = "Fault-v0", .description = "goes wrong on demand", .max_episode_steps = 50});

}  // namespace

TORCHRL_POOL_PLUGIN("fault", "1.0")
