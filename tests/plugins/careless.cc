// An env whose author makes the mistake that its option names, each where a row is used.
#include <algorithm>

#include "torchrl_pool/env.h"

namespace pool = torchrl_pool;

namespace {

class Careless {
 public:
  struct Options {
    std::string mistake = "none";

    template <class Visitor>
    void Visit(Visitor& visit) {
      visit("mistake", mistake, "what its author did");
    }
  };

  static pool::Specs MakeSpecs(const Options&) {
    return {pool::Observation("observation", pool::Box<float>({2})),
            pool::Action("action", pool::Discrete(2)), pool::Info("steps", pool::Box<std::int64_t>({})),
            pool::Info("path", pool::Box<double>({3}))};
  }

  explicit Careless(const Options& options) : options_(options) {}
  void Seed(pool::Entropy entropy) { rng_ = pool::Rng(entropy); }

  void Reset(pool::Row& row) {
    steps_ = 0;
    if (Makes("an action in reset")) steps_ = *row.Action<std::int64_t>();
    Write(row);
  }

  pool::Outcome Step(pool::Row& row) {
    ++steps_;
    if (Makes("another type")) row.Out<double>()[0] = 1;
    if (Makes("an index too high")) row.Out<float>(3)[0] = 1;
    if (Makes("a negative index")) row.Out<float>(-1)[0] = 1;
    if (Makes("another type of action")) steps_ += row.Action<std::int32_t>()[0];
    if (Makes("an action too many")) steps_ += row.Action<std::int64_t>(1)[0];
    Write(row);
    return {.reward = 1, .terminated = steps_ >= 5};
  }

  template <class Visitor>
  void VisitState(Visitor& visit) {
    visit(rng_, steps_);
  }

 private:
  bool Makes(const char* mistake) const { return options_.mistake == mistake; }

  void Write(pool::Row& row) const {  // as it should be
    row.Out<float>(0)[0] = static_cast<float>(rng_.Random());
    row.Out<float>(0)[1] = static_cast<float>(steps_);
    if (auto* steps = row.Out<std::int64_t>(1)) *steps = steps_;
    if (double* path = row.Out<double>(2)) std::fill_n(path, 3, static_cast<double>(steps_));
  }

  const Options& options_;
  mutable pool::Rng rng_;
  std::int64_t steps_ = 0;
};

const bool registered = pool::Register<Careless>({.id = "Careless-v0"});

}  // namespace

TORCHRL_POOL_PLUGIN("careless", "1.0")
