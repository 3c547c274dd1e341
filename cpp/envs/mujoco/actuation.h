// From actions to controls: as they are or as targets of joints, at once or later.
#ifndef TORCHRL_POOL_ENVS_MUJOCO_ACTUATION_H_
#define TORCHRL_POOL_ENVS_MUJOCO_ACTUATION_H_

#include <mujoco/mujoco.h>

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "torchrl_pool/error.h"
#include "torchrl_pool/option.h"
#include "torchrl_pool/rng.h"
#include "torchrl_pool/spec.h"

namespace torchrl_pool::mujoco {

// Shared by all envs of a configuration.
struct ActuationOptions {
  // What drives a joint to its target, which is offset + scale * action.
  struct Drive {
    std::size_t control;
    int joint;
    std::size_t position, velocity;  // of the joint, in qpos and qvel
    double kp, kd;
    double offset = 0, scale = 1;
  };

  std::optional<std::vector<double>> kp;
  std::vector<double> kd{0.0};
  std::optional<std::vector<double>> target_scale;
  std::array<double, 2> unlimited_range{-1.0, 1.0};
  std::array<std::int64_t, 2> action_delay{0, 0};  // in simulation steps

  // What Open makes of them. Controls without one are actions.
  std::vector<Drive> drives;

  template <class Visitor>
  void Visit(Visitor& visit) {
    visit("kp", kp,
          "with it actions are targets of the hinges and slides that actuators move, and their controls in "
          "each "
          "simulation step are 'kp * (target - position) - kd * velocity'; one for all actuators or one for "
          "each");
    visit("kd", kd, "see kp");
    visit("target_scale", target_scale,
          "targets are the initial positions plus this times actions from -1 to 1; without, they are the "
          "actions");
    visit("unlimited_range", unlimited_range,
          "bounds of actions for which the model has none: actuators without a ctrlrange, joints without a "
          "range");
    visit("action_delay", action_delay,
          "simulation steps before an action arrives: least and most, drawn at each reset");
  }
  // Throws InvalidArgument where the model has not what the options ask for. `pose`: initial positions.
  void Open(const mjModel& model, const double* pose);
  Spec ActionSpec(const mjModel& model) const;

 private:
  std::array<double, 2> ActionRange(const mjModel& model, std::size_t control) const;
};

// One env's.
class Actuation {
 public:
  Actuation(const ActuationOptions& options, const mjModel& model, std::int64_t frame_skip);

  // Begins an episode from this data.
  void Reset(const mjData& data, Rng& rng);
  void Act(const float* action);
  // As before the last Act. What that has overwritten is too old for any delay.
  void TakeBack() { --steps_; }
  // Makes simulation step `substep` of the current step, with its controls.
  void Advance(std::int64_t substep, const mjModel& model, mjData* data);

  template <class Visitor>
  void VisitState(Visitor& visit) {
    const std::size_t size = actions_.size();
    visit(actions_);
    if (actions_.size() != size) throw InvalidArgument("the saved state is of another model");
    visit.Bounded(delay_, options_.action_delay[0], options_.action_delay[1]);
    visit.Bounded(steps_, 0, std::int64_t{1} << 50);
  }

 private:
  const ActuationOptions& options_;
  const std::size_t num_controls_;
  const std::int64_t frame_skip_;
  const std::size_t num_kept_;
  std::int64_t delay_, steps_ = 0;
  std::vector<double> actions_;  // the last few, in turn; the last place holds what was before the first
};

}  // namespace torchrl_pool::mujoco

#endif  // TORCHRL_POOL_ENVS_MUJOCO_ACTUATION_H_
