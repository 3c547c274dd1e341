// Pushes: forces on a body for a few steps, at random times and in random directions.
#ifndef TORCHRL_POOL_ENVS_MUJOCO_PUSHES_H_
#define TORCHRL_POOL_ENVS_MUJOCO_PUSHES_H_

#include <mujoco/mujoco.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <optional>
#include <string>

#include "model.h"
#include "torchrl_pool/error.h"
#include "torchrl_pool/option.h"
#include "torchrl_pool/rng.h"

namespace torchrl_pool::mujoco {

// Shared by all envs of a configuration.
struct PushOptions {
  std::optional<std::string> push_body;
  std::array<double, 2> push_force{50.0, 100.0};
  std::array<std::int64_t, 2> push_every{50, 100};
  std::int64_t push_steps = 5;

  int body = -1;

  template <class Visitor>
  void Visit(Visitor& visit) {
    visit("push_body", push_body, "the body that is pushed");
    visit("push_force", push_force, "least and greatest force of a push (N), in a horizontal direction",
          {.choices = {}, .minimum = 0});
    visit("push_every", push_every, "least and greatest number of steps between the beginnings of pushes",
          {.choices = {}, .minimum = 1});
    visit("push_steps", push_steps, "how many steps a push lasts", {.choices = {}, .minimum = 1});
  }
  void Open(const mjModel& model) {
    if (push_force[0] > push_force[1]) throw InvalidArgument("push_force: expected the least one first");
    if (push_every[0] > push_every[1]) throw InvalidArgument("push_every: expected the least one first");
    if (!push_body) return;
    body = Find(model, mjOBJ_BODY, *push_body);
    int joined = body;
    while (joined > 0 && model.body_dofnum[joined] == 0) joined = model.body_parentid[joined];
    if (joined == 0) throw InvalidArgument("push_body: no force moves '" + *push_body + "'");
  }
};

// One env's.
class Pushes {
 public:
  explicit Pushes(const PushOptions& options) : options_(&options) {}

  // Begins an episode with the wrench that the body has already, to which pushes are added.
  void Reset(const mjData& data, Rng& rng) {
    if (options_->body < 0) return;
    std::copy_n(data.xfrc_applied + 6 * options_->body, 6, wrench_.begin());
    left_ = 0;
    wait_ = Interval(rng);
  }
  // Before each step.
  void Apply(mjData* data, Rng& rng) {
    if (options_->body < 0) return;
    if (wait_ == 0) {
      const double force = rng.Uniform(options_->push_force[0], options_->push_force[1]);
      const double direction = rng.Uniform(0, 2 * std::numbers::pi);
      force_ = {force * std::cos(direction), force * std::sin(direction)};
      left_ = options_->push_steps;
      wait_ = Interval(rng);
    }
    --wait_;
    double* const wrench = data->xfrc_applied + 6 * options_->body;
    std::copy(wrench_.begin(), wrench_.end(), wrench);
    if (left_ == 0) return;
    --left_;
    for (std::size_t i = 0; i < force_.size(); ++i) wrench[i] += force_[i];
  }

  template <class Visitor>
  void VisitState(Visitor& visit) {
    visit.Bounded(left_, 0, options_->push_steps);
    visit.Bounded(wait_, 0, options_->push_every[1]);
    visit(force_);
    visit(wrench_);
  }

 private:
  std::int64_t Interval(Rng& rng) const {
    return rng.Integers(options_->push_every[0], options_->push_every[1] + 1);
  }

  const PushOptions* options_;
  std::int64_t left_ = 0, wait_ = 0;  // steps of this push; steps until the next
  std::array<double, 2> force_{};
  std::array<double, 6> wrench_{};  // the episode's own
};

}  // namespace torchrl_pool::mujoco

#endif  // TORCHRL_POOL_ENVS_MUJOCO_PUSHES_H_
