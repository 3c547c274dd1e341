// One task for each kind of spaces: dict observations, several actions, pictures, agents. Twins of the first
// three stand in tests/env/test_spaces.py.
#include "torchrl_pool/env.h"

namespace pool = torchrl_pool;

namespace {

// What they share: an episode of seven steps with one random number, and Write, which shows where it stands.
class Base {
 public:
  struct Options {
    template <class Visitor>
    void Visit(Visitor&) {}
  };
  virtual ~Base() = default;

  void Seed(pool::Entropy entropy) { rng_ = pool::Rng(entropy); }
  void Reset(pool::Row& row) {
    steps_ = 0;
    random_ = rng_.Random();
    Write(row);
  }
  pool::Outcome Step(pool::Row& row) {
    ++steps_;
    Write(row);
    return {.reward = random_, .terminated = steps_ == 7};
  }

  template <class Visitor>
  void VisitState(Visitor& visit) {
    visit(rng_, random_, steps_);
  }

 protected:
  virtual void Write(pool::Row& row) const = 0;

  pool::Rng rng_;
  double random_ = 0;
  std::int64_t steps_ = 0;
};

class DictEnv : public Base {
 public:
  static pool::Specs MakeSpecs(const Options&) {
    return {pool::Observation("position", pool::Box<double>({2})),
            pool::Observation("sensors/range", pool::Box<float>({3}, 0, 30)),
            pool::Observation("sensors/touch", pool::MultiBinary({2})),
            pool::Observation("sensors/deep/mode", pool::Discrete(3)),
            pool::Observation("goal", pool::MultiDiscrete({3, 5})),
            pool::Observation("pair", pool::MultiDiscrete({4, 4})),
            pool::Action("action", pool::Discrete(2))};
  }
  explicit DictEnv(const Options&) {}

 private:
  void Write(pool::Row& row) const override {
    row.Out<double>(0)[0] = random_;
    row.Out<double>(0)[1] = random_ + static_cast<double>(steps_);
    for (int i = 0; i < 3; ++i) row.Out<float>(1)[i] = static_cast<float>((i + 1) * steps_);
    row.Out<std::int8_t>(2)[0] = steps_ % 2 != 0;
    row.Out<std::int8_t>(2)[1] = 1;
    row.Out<std::int64_t>(3)[0] = steps_ % 3;
    row.Out<std::int64_t>(4)[0] = steps_ % 3;
    row.Out<std::int64_t>(4)[1] = steps_ % 5;
    row.Out<std::int64_t>(5)[0] = steps_ % 4;
    row.Out<std::int64_t>(5)[1] = 3 - steps_ % 4;
  }
};

// Shows what it was told to do.
class MixedEnv : public Base {
 public:
  static pool::Specs MakeSpecs(const Options&) {
    return {pool::Observation("observation", pool::Box<double>({10})),
            pool::Action("move", pool::Discrete(4)),
            pool::Action("gear/level", pool::MultiDiscrete({3, 5})),
            pool::Action("gear/lights", pool::MultiBinary({3})),
            pool::Action("pair", pool::MultiDiscrete({6, 6})),
            pool::Action("force", pool::Box<float>({2}, -1, 1))};
  }
  explicit MixedEnv(const Options&) {}
  pool::Outcome Step(pool::Row& row) {
    const auto outcome = Base::Step(row);
    double* out = row.Out<double>();
    *out++ = static_cast<double>(row.Action<std::int64_t>(0)[0]);
    for (int i = 0; i < 2; ++i) *out++ = static_cast<double>(row.Action<std::int64_t>(1)[i]);
    for (int i = 0; i < 3; ++i) *out++ = row.Action<std::int8_t>(2)[i];
    for (int i = 0; i < 2; ++i) *out++ = static_cast<double>(row.Action<std::int64_t>(3)[i]);
    for (int i = 0; i < 2; ++i) *out++ = row.Action<float>(4)[i];
    return outcome;
  }

 private:
  void Write(pool::Row& row) const override {
    for (int i = 0; i < 10; ++i) row.Out<double>()[i] = random_;
  }
};

// Numbers of rare dtypes, and what it was told in them.
class RareEnv : public Base {
 public:
  static pool::Specs MakeSpecs(const Options&) {
    return {pool::Observation("half", pool::Box<pool::Half>({2})),
            pool::Observation("uint16", pool::Box<std::uint16_t>({2})),
            pool::Observation("uint32", pool::Box<std::uint32_t>({2})),
            pool::Observation("uint64", pool::Box<std::uint64_t>({2})),
            pool::Action("force", pool::Box<pool::Half>({1}, -1, 1)),
            pool::Action("level", pool::Box<std::uint16_t>({1}, 0, 60000))};
  }
  explicit RareEnv(const Options&) {}
  pool::Outcome Step(pool::Row& row) {
    const auto outcome = Base::Step(row);
    row.Out<pool::Half>(0)[1] = row.Action<pool::Half>(0)[0];
    row.Out<std::uint16_t>(1)[1] = row.Action<std::uint16_t>(1)[0];
    return outcome;
  }

 private:
  void Write(pool::Row& row) const override {
    const auto drawn =
        static_cast<std::uint64_t>(random_ * 0x1p53) << 11 | static_cast<std::uint64_t>(steps_);
    row.Out<pool::Half>(0)[0] = row.Out<pool::Half>(0)[1] = pool::Half(random_);
    row.Out<std::uint16_t>(1)[0] = row.Out<std::uint16_t>(1)[1] = static_cast<std::uint16_t>(drawn >> 48);
    row.Out<std::uint32_t>(2)[0] = row.Out<std::uint32_t>(2)[1] = static_cast<std::uint32_t>(drawn >> 32);
    row.Out<std::uint64_t>(3)[0] = row.Out<std::uint64_t>(3)[1] = drawn;
  }
};

class PicturesEnv : public Base {
 public:
  static pool::Specs MakeSpecs(const Options&) {
    return {pool::Observation("camera", pool::Box<std::uint8_t>({4, 6, 3})),
            pool::Observation("stack", pool::Box<std::uint8_t>({2, 4, 6})),
            pool::Observation("depth", pool::Box<float>({4, 6}, 0, 100)),
            pool::Action("action", pool::Discrete(2))};
  }
  explicit PicturesEnv(const Options&) {}

 private:
  void Write(pool::Row& row) const override {
    for (int i = 0; i < 72; ++i) row.Out<std::uint8_t>(0)[i] = static_cast<std::uint8_t>(steps_ * 40 + i);
    for (int i = 0; i < 48; ++i) row.Out<std::uint8_t>(1)[i] = static_cast<std::uint8_t>(steps_ + 5 * i);
    for (int i = 0; i < 24; ++i) row.Out<float>(2)[i] = static_cast<float>(i + random_);
  }
};

// Its action and its reward are single numbers without a dimension of their own, and it earns what it does.
class ScalarEnv : public Base {
 public:
  static pool::Specs MakeSpecs(const Options&) {
    return {pool::Observation("observation", pool::Box<float>({})),
            pool::Action("action", pool::Box<float>({}, -1, 1)), pool::Reward<double>("reward", {1})};
  }
  explicit ScalarEnv(const Options&) {}
  pool::Outcome Step(pool::Row& row) {
    const auto outcome = Base::Step(row);
    row.Out<double>(1)[0] = random_ + row.Action<float>()[0];
    return {.terminated = outcome.terminated};
  }

 private:
  void Write(pool::Row& row) const override { row.Out<float>()[0] = static_cast<float>(steps_); }
};

// Agents that leave one after another: agent i is done after i + 2 steps, the env when all are.
class AgentsEnv : public Base {
 public:
  struct Options {
    std::int64_t num_agents = 3;
    template <class Visitor>
    void Visit(Visitor& visit) {
      visit("num_agents", num_agents, "agents in an env", {.minimum = 1});
    }
  };
  static pool::Specs MakeSpecs(const Options& options) {
    const std::int64_t n = options.num_agents;
    return {
        pool::Observation("agents/observation", pool::PerAgent(n, pool::Box<float>({2}, {0, -1}, {20, 9}))),
        pool::Observation("agents/role", pool::PerAgent(n, pool::Discrete(4))),
        pool::Observation("state", pool::Box<double>({1})),
        pool::Action("agents/action", pool::PerAgent(n, pool::Discrete(5))),
        pool::Action("agents/signal", pool::PerAgent(n, pool::MultiDiscrete({2, 3}))),
        pool::Reward("agents/reward", {n, 1}),
        pool::Done("agents/done", {n, 1}),
        pool::Done("agents/terminated", {n, 1}),
        pool::Done("agents/truncated", {n, 1})};
  }
  explicit AgentsEnv(const Options& options) : options_(options) {}
  pool::Outcome Step(pool::Row& row) {
    Base::Step(row);
    for (std::int64_t i = 0; i < options_.num_agents; ++i) {
      const auto* signal = row.Action<std::int64_t>(1) + 2 * i;
      row.Out<float>(3)[i] =
          static_cast<float>(100 * row.Action<std::int64_t>(0)[i] + 10 * signal[0] + signal[1]);
    }
    return {.terminated = steps_ >= options_.num_agents + 1};
  }

 private:
  void Write(pool::Row& row) const override {
    for (std::int64_t i = 0; i < options_.num_agents; ++i) {
      row.Out<float>(0)[2 * i] = static_cast<float>(steps_ + i);
      row.Out<float>(0)[2 * i + 1] = static_cast<float>(random_);
      row.Out<std::int64_t>(1)[i] = (steps_ + i) % 4;
      const bool done = steps_ >= i + 2;
      row.Out<bool>(4)[i] = row.Out<bool>(5)[i] = done;
      row.Out<bool>(6)[i] = false;
    }
    row.Out<double>(2)[0] = random_;
  }

  const Options& options_;
};

// Agents whose envs end at different times.
class RestlessEnv : public AgentsEnv {
 public:
  using AgentsEnv::AgentsEnv;
  pool::Outcome Step(pool::Row& row) {
    AgentsEnv::Step(row);
    return {.terminated = rng_.Random() < 0.2};
  }
};

const bool registered =
    pool::Register<DictEnv>({.id = "Dict-v0"}) && pool::Register<MixedEnv>({.id = "Mixed-v0"}) &&
    pool::Register<RareEnv>({.id = "Rare-v0"}) && pool::Register<PicturesEnv>({.id = "Pictures-v0"}) &&
    pool::Register<AgentsEnv>({.id = "Agents-v0"}) && pool::Register<ScalarEnv>({.id = "Scalar-v0"}) &&
    pool::Register<RestlessEnv>({.id = "Restless-v0"});

}  // namespace

TORCHRL_POOL_PLUGIN("spaces", "1.0")
