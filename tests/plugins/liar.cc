// An env that breaks the contract in the way that its option names.
#include <atomic>
#include <cstring>
#include <stdexcept>

#include "torchrl_pool/env.h"

namespace pool = torchrl_pool;

namespace {

class Liar {
 public:
  struct Options {
    std::string lie = "none";

    template <class Visitor>
    void Visit(Visitor& visit) {
      visit("lie", lie, "what it does wrong");
    }
  };

  static pool::Specs MakeSpecs(const Options&) {
    return {pool::Observation("vector", pool::Box<float>({4}, -1, 1)),
            pool::Observation("choice", pool::MultiDiscrete({3, 5})),
            pool::Info("extra", pool::Box<double>({2, 2})),
            pool::Done("late", {1}),
            pool::Action("action", pool::Discrete(2)),
            pool::Action("place", pool::Box<float>({1}, 0, 3))};
  }

  explicit Liar(const Options& options) : options_(options) {}

  void Seed(pool::Entropy entropy) {
    rng_ = pool::Rng(entropy);
    if (Lies("ignores its seed")) {
      static std::atomic<std::uint32_t> calls = 0;
      const std::uint32_t word = ++calls;
      rng_ = pool::Rng(pool::Entropy{&word, 1});
    }
  }

  void Reset(pool::Row& row) {
    steps_ = 0;
    hidden_ = told_ = rng_.Random();
    Write(row, Lies("forgets at reset") ? 3 : 4);
  }

  pool::Outcome Step(pool::Row& row) {
    ++steps_;
    hidden_ = 0.9 * hidden_ + 0.1 * rng_.Random();
    told_ += Lies("moves when it is asked") && !row.Out<double>(2) ? 0 : hidden_;
    if (Lies("moves when it is asked")) hidden_ = told_ / 20;
    if (Lies("shares")) hidden_ = (shared_ += 0.01) < 1 ? shared_ : (shared_ = 0);
    Write(row, Lies("forgets at step") ? 3 : 4);
    if (Lies("writes too much")) row.Out<float>(0)[4] = 0;
    const float place = row.Action<float>(1)[0];
    if (Lies("trusts an action")) row.Out<float>(0)[static_cast<int>(place)] = 0;
    if (Lies("refuses an action") && !(place <= 3)) throw std::runtime_error("a place beyond 3");
    if (Lies("leaves its bounds")) row.Out<float>(0)[1] = 1.5f;
    if (Lies("invents a category")) row.Out<std::int64_t>(1)[1] = 5;
    if (Lies("knows more than yes and no")) std::memset(row.Out<bool>(3), 2, 1);
    return {.reward = hidden_, .terminated = steps_ == 10};
  }

  template <class Visitor>
  void VisitState(Visitor& visit) {
    visit(rng_, steps_);
    if (!Lies("saves too little")) visit(hidden_);
    if (!Lies("saves too little of its infos")) visit(told_);
  }

 private:
  bool Lies(const char* lie) const { return options_.lie == lie; }

  void Write(pool::Row& row, int count) const {
    for (int i = 0; i < count; ++i) row.Out<float>(0)[i] = static_cast<float>(hidden_);
    row.Out<std::int64_t>(1)[0] = steps_ % 3;
    row.Out<std::int64_t>(1)[1] = steps_ % 5;
    if (double* extra = row.Out<double>(2)) {
      for (int i = 0; i < (Lies("forgets an info") ? 2 : 4); ++i) extra[i] = told_;
    }
    row.Out<bool>(3)[0] = steps_ > 5;
  }

  static inline double shared_ = 0;
  const Options& options_;
  pool::Rng rng_;
  double hidden_ = 0;
  double told_ = 0;  // by the info alone
  std::int64_t steps_ = 0;
};

const bool registered = pool::Register<Liar>({.id = "Liar-v0"});

}  // namespace

TORCHRL_POOL_PLUGIN("liar", "1.0")
