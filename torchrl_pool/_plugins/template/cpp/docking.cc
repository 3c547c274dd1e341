// Docking: bring a spacecraft to a halt at the origin of a line. Twin: src/my_envs/docking.py.
#include <algorithm>
#include <cmath>

#include "torchrl_pool/env.h"

namespace pool = torchrl_pool;

namespace {

class Docking {
 public:
  struct Options {
    double mass = 2.0;
    double range = 1.0;

    template <class Visitor>
    void Visit(Visitor& visit) {
      visit("mass", mass, "of the spacecraft (kg)", {.minimum = 0.1});
      visit("range", range, "largest initial distance (m)");
    }
  };

  static pool::Specs MakeSpecs(const Options&) {
    return {pool::Observation("observation", pool::Box<float>({2}), "position (m), velocity (m/s)"),
            pool::Action("action", pool::Box<float>({1}, -1, 1), "thrust (N)"),
            pool::Info("fuel", pool::Box<double>({}), "thrust used in this episode (N s)")};
  }

  explicit Docking(const Options& options) : options_(options) {}

  void Seed(pool::Entropy entropy) { rng_ = pool::Rng(entropy); }

  void Reset(pool::Row& row) {
    position_ = rng_.Uniform(-options_.range, options_.range);
    velocity_ = fuel_ = 0;
    Write(row);
  }

  pool::Outcome Step(pool::Row& row) {
    constexpr double kTimeStep = 0.1;
    const double thrust = std::clamp(row.Action<float>()[0], -1.0f, 1.0f);  // it may lie outside
    velocity_ += thrust / options_.mass * kTimeStep;
    position_ += velocity_ * kTimeStep;
    fuel_ += std::abs(thrust) * kTimeStep;
    Write(row);
    const bool docked = std::abs(position_) < 0.05 && std::abs(velocity_) < 0.05;
    return {.reward = docked ? 10.0 : -std::abs(position_), .terminated = docked};
  }

  template <class Visitor>
  void VisitState(Visitor& visit) {  // for get_state and set_state
    visit(rng_, position_, velocity_, fuel_);
  }

 private:
  void Write(pool::Row& row) const {
    row.Out<float>(0)[0] = static_cast<float>(position_);
    row.Out<float>(0)[1] = static_cast<float>(velocity_);
    if (double* fuel = row.Out<double>(1)) *fuel = fuel_;  // null unless info_keys has it
  }

  const Options& options_;
  pool::Rng rng_;
  double position_ = 0, velocity_ = 0, fuel_ = 0;
};

const bool registered = pool::Register<Docking>(
    {.id = "Docking-v0", .description = "halt at the origin", .max_episode_steps = 100});

}  // namespace

TORCHRL_POOL_PLUGIN("my_envs", "0.1.0")
