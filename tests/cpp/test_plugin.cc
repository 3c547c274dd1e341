// Envs for tests of the executor: "Counter-v0", whose every number is known and whose time and faults are
// options, and "Kinds-v0", with entries of every kind.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <thread>

#include "counter.h"
#include "torchrl_pool/env.h"

namespace torchrl_pool::test {
namespace {

Probe probe;

void SleepUs(std::int64_t microseconds) {
  std::this_thread::sleep_for(std::chrono::microseconds(microseconds));
}

// Held while a function of an env runs, to find out whether a pool lets two threads into one.
class Alone {
 public:
  explicit Alone(std::atomic<bool>& inside) : inside_(inside) {
    if (inside_.exchange(true)) throw std::logic_error("two threads are in one env");
  }
  ~Alone() { inside_.store(false); }
  Alone(const Alone&) = delete;
  Alone& operator=(const Alone&) = delete;

 private:
  std::atomic<bool>& inside_;
};

class CounterEnv {
 public:
  struct Options {
    std::int64_t cost_ns = 0;
    std::int64_t sleep_us = 0;
    std::int64_t episode_length = 0;
    std::int64_t truncate_at = 0;
    std::int64_t fail_at_step = 0;
    std::int64_t fail_at_reset = 0;
    std::int64_t fail_on_action = -1;
    std::int64_t refuse_action = -1;
    bool fail_create = false;
    bool fail_seed = false;
    bool gate = false;
    std::int64_t create_us = 0;
    std::int64_t render_us = 0;
    std::int64_t reset_us = 0;
    std::int64_t destroy_us = 0;
    std::int64_t raises = 0;
    std::int64_t slow_action = -1;
    std::int64_t slow_us = 0;

    template <class Visitor>
    void Visit(Visitor& visit) {
      visit("cost_ns", cost_ns, "how long a step or a reset computes");
      visit("sleep_us", sleep_us, "how long it sleeps besides");
      visit("episode_length", episode_length, "steps until termination; 0: never");
      visit("truncate_at", truncate_at, "step that truncates; 0: none");
      visit("fail_at_step", fail_at_step, "step of an episode that fails; 0: none");
      visit("fail_at_reset", fail_at_reset, "reset since the seed that fails; 0: none");
      visit("fail_on_action", fail_on_action, "action that fails; -1: none");
      visit("refuse_action", refuse_action, "action that fails and changes nothing; -1: none");
      visit("fail_create", fail_create, "fail while being created");
      visit("fail_seed", fail_seed, "fail while being seeded");
      visit("gate", gate, "wait in steps and resets while the probe's gate is closed");
      visit("create_us", create_us, "how long it takes to create an env");
      visit("render_us", render_us, "how long a picture takes");
      visit("reset_us", reset_us, "how long resets sleep besides");
      visit("destroy_us", destroy_us, "how long it takes to destroy an env");
      visit("raises", raises, "signal that a step raises in its thread; 0: none");
      visit("slow_action", slow_action, "action whose step sleeps for slow_us besides; -1: none");
      visit("slow_us", slow_us, "how long that is");
    }
  };

  static Specs MakeSpecs(const Options&) {
    return {Observation("count", Box<std::int64_t>({4}), "seed, resets, steps, checksum of actions"),
            Action("action", Discrete(kCounterActions))};
  }

  explicit CounterEnv(const Options& options) : options_(options) {
    if (options.create_us > 0) SleepUs(options.create_us);
    if (options.fail_create) throw FileNotFound("no such counter");
    probe.envs.fetch_add(1);
  }
  ~CounterEnv() {
    if (options_.destroy_us > 0) SleepUs(options_.destroy_us);
    probe.envs.fetch_sub(1);
  }
  CounterEnv(const CounterEnv&) = delete;
  CounterEnv& operator=(const CounterEnv&) = delete;

  void Seed(Entropy entropy) {
    const Alone alone(inside_);
    if (options_.fail_seed) throw InvalidArgument("bad seed");
    counter_.Seed(entropy.words[0]);
  }

  void Reset(Row& row) {
    const Alone alone(inside_);
    in_episode_ = false;
    if (options_.reset_us > 0) SleepUs(options_.reset_us);
    Work();
    counter_.Reset();
    if (counter_.resets == options_.fail_at_reset) throw std::runtime_error("the reset fails");
    in_episode_ = true;
    Write(row);
  }

  Outcome Step(Row& row) {
    const Alone alone(inside_);
    in_episode_ = false;  // until it is known that the step does not fail
    Work();
    if (options_.raises > 0) std::raise(static_cast<int>(options_.raises));
    const std::int64_t action = row.Action<std::int64_t>()[0];
    if (action == options_.slow_action) SleepUs(options_.slow_us);
    if (action == options_.fail_on_action) throw std::runtime_error("action " + std::to_string(action));
    if (action == options_.refuse_action) throw Unchanged("action " + std::to_string(action));
    counter_.Step(action);
    if (counter_.steps == options_.fail_at_step) throw std::runtime_error("the step fails");
    in_episode_ = true;
    Write(row);
    return {.reward = counter_.Reward(),
            .terminated = counter_.steps == options_.episode_length,
            .truncated = counter_.steps == options_.truncate_at};
  }

  template <class Visitor>
  void VisitState(Visitor& visit) {
    const Alone alone(inside_);
    // The ABI: after a failure, and before its first reset, an env is only reset or destroyed.
    if (!in_episode_) throw std::runtime_error("not in an episode");
    visit(counter_);
  }

  static ImageSize RenderSize(const Options&) { return {1, 2}; }
  void Render(std::uint8_t* rgb) {
    const Alone alone(inside_);
    probe.rendering.store(true);
    SleepUs(options_.render_us);
    std::fill_n(rgb, 6, static_cast<std::uint8_t>(counter_.steps));
    probe.rendering.store(false);
  }

 private:
  void Work() const {
    using Clock = std::chrono::steady_clock;
    if (options_.cost_ns > 0) {
      const auto end = Clock::now() + std::chrono::nanoseconds(options_.cost_ns);
      while (Clock::now() < end) {
      }
    }
    if (options_.sleep_us > 0) SleepUs(options_.sleep_us);
    if (options_.gate) WaitAtGate();
  }

  static void WaitAtGate() {
    if (!probe.gate_closed.load()) return;
    if (std::this_thread::get_id() == probe.exempt.load()) {
      SleepUs(300);  // long enough for the other threads to wake and take work
      return;
    }
    probe.at_gate.fetch_add(1);
    while (probe.gate_closed.load()) SleepUs(100);
    probe.at_gate.fetch_sub(1);
  }

  void Write(Row& row) const {
    const auto values = counter_.Observe();
    std::copy(values.begin(), values.end(), row.Out<std::int64_t>());
  }

  const Options& options_;
  Counter counter_;
  bool in_episode_ = false;
  std::atomic<bool> inside_{false};
};

// Every number it writes is 100 × (position among the outputs) + 10 × steps + element. Actions of every
// dtype are there to be checked; the outcome is what "flags" says.
class KindsEnv {
 public:
  struct Options {
    std::int64_t width = 2;
    double high = 0.4;
    std::int64_t fail_at_step = 0;

    template <class Visitor>
    void Visit(Visitor& visit) {
      visit("width", width, "elements of 'vector'");
      visit("high", high, "bound of the float actions");
      visit("fail_at_step", fail_at_step, "step of an episode that fails; 0: none");
    }
  };

  static Specs MakeSpecs(const Options& options) {
    return {Observation("nested/float64", Box<double>({2, 3})),
            Action("flags", MultiDiscrete({2, 2})),  // terminated, truncated
            Observation("vector", Box<float>({options.width}, -1e6, 1e6)),
            Observation("pixels", Box<std::uint8_t>({3})),
            Info("info32", Box<float>({2})),
            Info("info64", Box<double>({})),
            Reward("agents/reward", {2}),
            Done("agents/done", {2}),
            Action("bool", Box<bool>({1})),
            Action("uint8", Box<std::uint8_t>({1}, 1, 200)),
            Action("int8", Box<std::int8_t>({1}, -3, 3)),
            Action("int16", Box<std::int16_t>({1}, -300, 300)),
            Action("int32", Box<std::int32_t>({1}, -70000, 70000)),
            Action("int64", Box<std::int64_t>({1}, -5e9, 5e9)),
            Action("wide64", Box<std::int64_t>({1}, -0x1p53, 0x1p53)),
            Action("float32", Box<float>({2}, std::vector<double>{-1, -0.1}, {options.high, 0.2})),
            Action("float64", Box<double>({2}, -options.high, options.high)),
            Action("unbounded32", Box<float>({1})),
            Action("unbounded64", Box<double>({1})),
            Action("uint16", Box<std::uint16_t>({1}, 0, 60000)),
            Action("uint32", Box<std::uint32_t>({1}, 0, 4e9)),
            Action("uint64", Box<std::uint64_t>({1}, 0, 0x1p63)),
            Action("float16", Box<Half>({1}, -options.high, options.high)),
            Action("choice", Discrete(3))};
  }

  explicit KindsEnv(const Options& options) : options_(options) {}

  void Seed(Entropy) {}

  void Reset(Row& row) {
    steps_ = 0;
    Write(row);
  }

  Outcome Step(Row& row) {
    ++steps_;
    if (steps_ == options_.fail_at_step) {
      row.Out<double>(0)[0] = -1;  // half a row
      throw std::runtime_error("the step fails");
    }
    Write(row);
    Fill(row.Out<float>(5), 5, 2);
    return {.terminated = row.Action<std::int64_t>(0)[0] != 0,
            .truncated = row.Action<std::int64_t>(0)[1] != 0};
  }

 private:
  void Write(Row& row) const {
    Fill(row.Out<double>(0), 0, 6);
    Fill(row.Out<float>(1), 1, options_.width);
    Fill(row.Out<std::uint8_t>(2), 0, 3);
    if (float* info = row.Out<float>(3)) Fill(info, 3, 2);
    if (double* info = row.Out<double>(4)) Fill(info, 4, 1);
    row.Out<bool>(6)[0] = steps_ % 2 != 0;
    row.Out<bool>(6)[1] = true;
  }

  template <class T>
  void Fill(T* to, int position, std::int64_t count) const {
    for (std::int64_t i = 0; i < count; ++i) to[i] = static_cast<T>(100 * position + 10 * steps_ + i);
  }

  const Options& options_;
  std::int64_t steps_ = 0;
};

const bool registered = Register<CounterEnv>({.id = "Counter-v0", .description = "counts"}) &&
                        Register<KindsEnv>({.id = "Kinds-v0", .max_episode_steps = 7});

}  // namespace
}  // namespace torchrl_pool::test

extern "C" __attribute__((visibility("default"))) torchrl_pool::test::Probe* torchrl_pool_test_probe() {
  return &torchrl_pool::test::probe;
}

TORCHRL_POOL_PLUGIN("test", "1.2")
