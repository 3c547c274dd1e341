// A cue that is shown once and asked for later: what to do depends on what is no longer to be seen.
#include "torchrl_pool/env.h"

namespace pool = torchrl_pool;

namespace {

class Cue {
 public:
  struct Options {
    double delay = 4;

    template <class Visitor>
    void Visit(Visitor& visit) {
      visit("delay", delay, "steps between the cue and the question");
    }
  };

  static pool::Specs MakeSpecs(const Options&) {
    return {pool::Observation("observation", pool::Box<float>({3}), "left, right, asked"),
            pool::Action("action", pool::Discrete(2), "left, right")};
  }

  explicit Cue(const Options& options) : options_(options) {}

  void Seed(pool::Entropy entropy) { rng_ = pool::Rng(entropy); }

  void Reset(pool::Row& row) {
    steps_ = 0;
    right_ = rng_.Uniform(0, 1) < 0.5 ? 0 : 1;
    Show(row, right_ == 0, right_ == 1, 0);
  }

  pool::Outcome Step(pool::Row& row) {
    const bool asked = steps_++ >= options_.delay;
    const bool right = row.Action<std::int64_t>()[0] == right_;
    Show(row, 0, 0, steps_ >= options_.delay ? 1 : 0);
    return {.reward = asked ? (right ? 1.0 : -1.0) : 0.0, .terminated = asked};
  }

 private:
  static void Show(pool::Row& row, float left, float right, float asked) {
    float* const out = row.Out<float>();
    out[0] = left;
    out[1] = right;
    out[2] = asked;
  }

  const Options& options_;
  pool::Rng rng_;
  int steps_ = 0;
  int right_ = 0;
};

const bool registered = pool::Register<Cue>({.id = "Cue-v0"});

}  // namespace

TORCHRL_POOL_PLUGIN("cue", "1.0")
