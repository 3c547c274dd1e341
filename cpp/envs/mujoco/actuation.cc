#include "actuation.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "actuator_names.h"
#include "torchrl_pool/error.h"

namespace torchrl_pool::mujoco {
namespace {

void CheckCount(const mjModel& model, const std::string& name, const std::vector<double>& values) {
  if (values.size() != 1 && values.size() != static_cast<std::size_t>(model.nu)) {
    throw InvalidArgument(name + ": expected one number, or one for each of the model's " +
                          std::to_string(model.nu) + " actuators, got " + std::to_string(values.size()));
  }
}

}  // namespace

void ActuationOptions::Open(const mjModel& model, const double* pose) {
  if (action_delay[0] < 0 || action_delay[0] > action_delay[1] || action_delay[1] > 10'000) {
    throw InvalidArgument("action_delay: expected least and most simulation steps, from 0 to 10,000");
  }
  if (!(unlimited_range[0] < unlimited_range[1]) || !std::isfinite(unlimited_range[1] - unlimited_range[0])) {
    throw InvalidArgument("unlimited_range: expected two finite numbers, the least one first");
  }
  if (model.nu == 0)
    throw InvalidArgument("the model has no actuators; models without actuators are not supported");
  for (const auto& [name, values] : Gains()) {
    CheckCount(model, name, values);
    if (ControlLaw::IsWord(name))
      throw InvalidArgument("gains: '" + name + "' is a name of its own in expressions");
  }
  std::vector<std::string> lines = control;
  if (lines.empty() && kp) lines.emplace_back("kp * (target - position) - kd * velocity");
  law = ControlLaw(model, lines);
  for (const DataField& field : law.derived()) wanted.Add(field.array());
  if (kp && !law.Reads("kp") && !law.Reads("kd"))
    throw InvalidArgument("kp: 'control' names neither kp nor kd");
  if (!kp && kd != std::vector<double>{0.0}) throw InvalidArgument("kd: only with kp");
  for (const auto& [name, values] : gains) {
    if (!law.Reads(name)) throw InvalidArgument("gains: 'control' does not name '" + name + "'");
  }
  if (!target_scale) return;
  CheckCount(model, "target_scale", *target_scale);
  bool has_targets = false;
  for (std::size_t i = 0; i < law.controls().size(); ++i) {
    ControlLaw::Control& one = law.controls()[i];
    if (!one.has_target) continue;
    has_targets = true;
    one.offset = pose[one.position];
    one.scale = target_scale->size() == 1 ? target_scale->front() : target_scale->at(i);
  }
  if (!has_targets) throw InvalidArgument("target_scale: only with kp, or where 'control' names 'target'");
}

FloatListMap ActuationOptions::Gains() const {
  FloatListMap all = gains;
  if (kp) {
    all["kp"] = *kp;
    all["kd"] = kd;
  }
  return all;
}

std::array<double, 2> ActuationOptions::ActionRange(const mjModel& model, std::size_t control) const {
  const ControlLaw::Control& one = law.controls()[control];
  if (one.has_target && target_scale) return {-1.0, 1.0};
  const bool limited = one.has_target ? model.jnt_limited[*one.joint] : model.actuator_ctrllimited[control];
  if (!limited) return unlimited_range;
  const double* const range =
      one.has_target ? model.jnt_range + 2 * *one.joint : model.actuator_ctrlrange + 2 * control;
  return {range[0], range[1]};
}

Spec ActuationOptions::ActionSpec(const mjModel& model) const {
  std::vector<double> low, high;
  for (std::size_t i = 0; i < static_cast<std::size_t>(model.nu); ++i) {
    const auto [least, greatest] = ActionRange(model, i);
    low.push_back(least);
    high.push_back(greatest);
  }
  return Action("action", Box<float>({static_cast<std::int64_t>(model.nu)}, low, high),
                law.is_plain() ? ControlNames(model) : "what the controls are computed from");
}

Actuation::Actuation(const ActuationOptions& options, const mjModel& model, std::int64_t frame_skip)
    : options_(options),
      num_controls_(static_cast<std::size_t>(model.nu)),
      frame_skip_(frame_skip),
      num_kept_(static_cast<std::size_t>(options.action_delay[1] / frame_skip) + 2),
      delay_(options.action_delay[0]),
      workspace_(options.law.workspace()),
      actions_((num_kept_ + 1) * num_controls_) {}

void Actuation::Reset(const mjData& data, Rng& rng) {
  steps_ = 0;
  delay_ = rng.Integers(options_.action_delay[0], options_.action_delay[1] + 1);
  std::fill(actions_.begin(), actions_.end(), 0.0);
  double* const before = actions_.data() + num_kept_ * num_controls_;
  for (std::size_t i = 0; i < num_controls_; ++i) {
    const ControlLaw::Control& control = options_.law.controls()[i];
    if (control.has_target) {
      before[i] = control.scale != 0 ? (data.qpos[control.position] - control.offset) / control.scale : 0;
    } else {
      before[i] = data.ctrl[i];
    }
  }
}

void Actuation::Act(const float* action) {
  const std::size_t place = static_cast<std::size_t>(steps_) % num_kept_;
  std::copy_n(action, num_controls_, actions_.data() + place * num_controls_);
  ++steps_;
}

void Actuation::Control(std::int64_t substep, const mjModel& model, mjData* data) {
  const std::int64_t time = (steps_ - 1) * frame_skip_ + substep - delay_;
  const std::size_t place = time < 0 ? num_kept_ : static_cast<std::size_t>(time / frame_skip_) % num_kept_;
  const double* const action = actions_.data() + place * num_controls_;
  if (options_.law.is_plain()) {
    std::copy_n(action, num_controls_, data->ctrl);
  } else {
    options_.law.Compute(model, action, workspace_.data(), data);
  }
}

void Actuation::Advance(std::int64_t substep, const mjModel& model, mjData* data) {
  const bool reads_derived = options_.law.reads_derived();
  if (reads_derived) {
    mj_step1(&model, data);
    options_.wanted.ComputeMomenta(model, data);
  }
  Control(substep, model, data);
  if (reads_derived && model.opt.integrator != mjINT_RK4) {
    mj_step2(&model, data);
  } else {
    mj_step(&model, data);  // RK4 has no second part: it derives everything four times, from the first on
  }
  options_.wanted.ComputeForces(model, data);
}

}  // namespace torchrl_pool::mujoco
