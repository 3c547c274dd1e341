// An env that counts, fails on one action, and on two others waits at a gate that the test opens.
#include <atomic>
#include <chrono>
#include <stdexcept>
#include <thread>

#include "torchrl_pool/env.h"

namespace pool = torchrl_pool;

namespace {

constexpr std::int64_t kFails = 2, kFirstGate = 3;

std::atomic<bool> is_closed[2];

// Held while a function of an env runs.
class Alone {
 public:
  explicit Alone(std::atomic<bool>& inside) : inside_(inside) {
    if (inside_.exchange(true)) throw std::logic_error("two threads are in one env");
  }
  ~Alone() { inside_.store(false); }

 private:
  std::atomic<bool>& inside_;
};

class Gated {
 public:
  struct Options {
    template <class Visitor>
    void Visit(Visitor&) {}
  };

  static pool::Specs MakeSpecs(const Options&) {
    return {pool::Observation("observation", pool::Box<std::int64_t>({3}), "resets, steps, sum of actions"),
            pool::Action("action", pool::Discrete(5), "two that count, one that fails, two that wait")};
  }

  explicit Gated(const Options&) {}

  void Seed(pool::Entropy) {}

  void Reset(pool::Row& row) {
    const Alone alone(inside_);
    count_ = {count_.resets + 1, 0, 0};
    Write(row);
  }

  pool::Outcome Step(pool::Row& row) {
    const Alone alone(inside_);
    const std::int64_t action = row.Action<std::int64_t>()[0];
    if (action == kFails) throw std::runtime_error("as it was told to");
    while (action >= kFirstGate && is_closed[action - kFirstGate].load()) {
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
    count_ = {count_.resets, count_.steps + 1, count_.sum + action};
    Write(row);
    return {.reward = static_cast<float>(action), .terminated = count_.steps == 4};
  }

  template <class Visitor>
  void VisitState(Visitor& visit) {
    const Alone alone(inside_);
    visit(count_);
  }

 private:
  struct Count {
    std::int64_t resets, steps, sum;
  };

  void Write(pool::Row& row) const {
    auto* out = row.Out<std::int64_t>();
    out[0] = count_.resets;
    out[1] = count_.steps;
    out[2] = count_.sum;
  }

  Count count_{};
  std::atomic<bool> inside_{false};
};

const bool registered = pool::Register<Gated>({.id = "Gated-v0"});

}  // namespace

extern "C" __attribute__((visibility("default"))) void set_gate(int gate, bool closed) {
  is_closed[gate].store(closed);
}

TORCHRL_POOL_PLUGIN("gated", "1.0")
