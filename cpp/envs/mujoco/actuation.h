// What actuators get in each simulation step: the action itself, or what a law makes of it; at once, or late.
#ifndef TORCHRL_POOL_ENVS_MUJOCO_ACTUATION_H_
#define TORCHRL_POOL_ENVS_MUJOCO_ACTUATION_H_

#include <mujoco/mujoco.h>

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "control_law.h"
#include "torchrl_pool/error.h"
#include "torchrl_pool/option.h"
#include "torchrl_pool/rng.h"
#include "torchrl_pool/spec.h"
#include "wanted.h"

namespace torchrl_pool::mujoco {

// Shared by all envs of a configuration.
struct ActuationOptions {
  std::optional<std::vector<double>> kp;
  std::vector<double> kd{0.0};
  std::optional<std::vector<double>> target_scale;
  std::array<double, 2> unlimited_range{-1.0, 1.0};
  std::array<std::int64_t, 2> action_delay{0, 0};  // in simulation steps
  std::vector<std::string> control;
  FloatListMap gains;

  // What Open makes of them.
  ControlLaw law;
  Wanted wanted;  // by it

  template <class Visitor>
  void Visit(Visitor& visit) {
    visit("control", control,
          "what controls are in each simulation step: an expression for all actuators, or lines 'ACTUATOR = "
          "EXPRESSION', of action, target, position, velocity, gains, and arrays of mjData and mjModel");
    visit("gains", gains, "numbers by name for 'control': one for all actuators or one for each");
    visit("kp", kp,
          "with it 'control' is 'kp * (target - position) - kd * velocity', unless given; one for all "
          "actuators "
          "or one for each");
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
  // All gains, which the model is compiled with.
  FloatListMap Gains() const;
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
  // What the law reads of an episode's beginning, after mj_forward.
  void Begin(const mjModel& model, mjData* data) const { options_.wanted.ComputeForces(model, data); }
  // Makes simulation step `substep` of the current step, with its controls.
  void Advance(std::int64_t substep, const mjModel& model, mjData* data);

  // After the simulation's own state.
  template <class Visitor>
  void VisitState(Visitor& visit, mjData* data) {
    const std::size_t size = actions_.size();
    visit(actions_);
    if (actions_.size() != size) throw InvalidArgument("the saved state is of another model");
    if (options_.law.reads_derived()) VisitDerived(visit, data);
    visit.Bounded(delay_, options_.action_delay[0], options_.action_delay[1]);
    visit.Bounded(steps_, 0, std::int64_t{1} << 50);
  }

 private:
  void Control(std::int64_t substep, const mjModel& model, mjData* data);

  // What the law reads, of which some is computed at the end of a simulation step and read in the next.
  template <class Visitor>
  void VisitDerived(Visitor& visit, mjData* data) {
    for (const DataField& field : options_.law.derived()) {
      std::vector<double> values(field.size());
      field.Get(*data, values.data());
      visit(values);
      if constexpr (Visitor::kReading) {
        if (values.size() != field.size()) throw InvalidArgument("the saved state is of another model");
        field.Set(data, values.data());
      }
    }
  }

  const ActuationOptions& options_;
  const std::size_t num_controls_;
  const std::int64_t frame_skip_;
  const std::size_t num_kept_;
  std::int64_t delay_, steps_ = 0;
  std::vector<double> workspace_;  // the law's
  std::vector<double> actions_;    // the last few, in turn; the last place holds what was before the first
};

}  // namespace torchrl_pool::mujoco

#endif  // TORCHRL_POOL_ENVS_MUJOCO_ACTUATION_H_
