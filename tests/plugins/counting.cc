// Envs whose every number can be said beforehand, for tests of transforms.
#include "torchrl_pool/env.h"

namespace pool = torchrl_pool;

namespace {

// Counts the steps in which it was told to; the episode ends at `end`.
class Count {
 public:
  struct Options {
    std::int64_t end = 5;
    template <class Visitor>
    void Visit(Visitor& visit) {
      visit("end", end, "count that ends an episode", {.minimum = 1});
    }
  };
  static pool::Specs MakeSpecs(const Options&) {
    return {pool::Observation("observation", pool::Box<float>({1})),
            pool::Action("action", pool::Discrete(2), "wait, count")};
  }
  explicit Count(const Options& options) : options_(options) {}

  void Seed(pool::Entropy) {}
  void Reset(pool::Row& row) {
    count_ = 0;
    row.Out<float>()[0] = 0;
  }
  pool::Outcome Step(pool::Row& row) {
    count_ += row.Action<std::int64_t>()[0];
    row.Out<float>()[0] = static_cast<float>(count_);
    return {.reward = 1, .terminated = count_ >= options_.end};
  }

 private:
  const Options& options_;
  std::int64_t count_ = 0;
};

// Vectors, a picture and rewards of both signs, all drawn at random, and the action as it came.
class Draws {
 public:
  struct Options {
    std::int64_t end = 9;
    template <class Visitor>
    void Visit(Visitor& visit) {
      visit("end", end, "steps of an episode", {.minimum = 1});
    }
  };
  static pool::Specs MakeSpecs(const Options&) {
    return {pool::Observation("observation", pool::Box<float>({7})),
            pool::Observation("precise", pool::Box<double>({7})),
            pool::Observation("bounded", pool::Box<float>({7}, -1, 1)),
            pool::Observation("pixels", pool::Box<std::uint8_t>({8, 6, 3})),
            pool::Observation("received", pool::Box<float>({3})),
            pool::Action("action", pool::Box<float>({3}, {-2, 0, -5}, {4, 2, 5}))};
  }
  explicit Draws(const Options& options) : options_(options) {}

  void Seed(pool::Entropy entropy) { rng_ = pool::Rng(entropy); }
  void Reset(pool::Row& row) {
    steps_ = 0;
    for (int i = 0; i < 3; ++i) row.Out<float>(4)[i] = 0;
    Draw(row);
  }
  pool::Outcome Step(pool::Row& row) {
    ++steps_;
    for (int i = 0; i < 3; ++i) row.Out<float>(4)[i] = row.Action<float>()[i];
    Draw(row);
    return {.reward = rng_.Normal(0, 2), .terminated = steps_ >= options_.end};
  }

 private:
  void Draw(pool::Row& row) {
    for (int i = 0; i < 7; ++i) {
      row.Out<float>(0)[i] = static_cast<float>(rng_.Normal(0, 1));
      row.Out<double>(1)[i] = rng_.Normal(1, 3);
      row.Out<float>(2)[i] = static_cast<float>(rng_.Uniform(-1, 1));
    }
    for (int i = 0; i < 8 * 6 * 3; ++i) {
      row.Out<std::uint8_t>(3)[i] = static_cast<std::uint8_t>(256 * rng_.Random());
    }
  }

  const Options& options_;
  pool::Rng rng_;
  std::int64_t steps_ = 0;
};

// Two agents with rewards, and counts, of their own.
class Gifts {
 public:
  struct Options {
    template <class Visitor>
    void Visit(Visitor&) {}
  };
  static pool::Specs MakeSpecs(const Options&) {
    return {pool::Observation("first/count", pool::Box<float>({2})),
            pool::Observation("second/count", pool::Box<float>({2})),
            pool::Action("action", pool::Discrete(2)), pool::Reward("first/gift", {1}),
            pool::Reward("second/reward", {2, 1})};
  }
  explicit Gifts(const Options&) {}

  void Seed(pool::Entropy) {}
  void Reset(pool::Row& row) {
    steps_ = 0;
    Write(row);
  }
  pool::Outcome Step(pool::Row& row) {
    ++steps_;
    Write(row);
    row.Out<float>(2)[0] = 1;
    row.Out<float>(3)[0] = 2;
    row.Out<float>(3)[1] = -3;
    return {.terminated = steps_ == 6};
  }

 private:
  void Write(pool::Row& row) const {
    for (int i = 0; i < 2; ++i) {
      row.Out<float>(0)[i] = static_cast<float>(steps_);
      row.Out<float>(1)[i] = static_cast<float>(-i * steps_);
    }
  }

  std::int64_t steps_ = 0;
};

const bool registered = pool::Register<Count>({.id = "Count-v0"}) &&
                        pool::Register<Draws>({.id = "Draws-v0"}) &&
                        pool::Register<Gifts>({.id = "Gifts-v0"});

}  // namespace

TORCHRL_POOL_PLUGIN("counting", "1.0")
