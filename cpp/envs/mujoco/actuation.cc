#include "actuation.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "actuator_names.h"
#include "torchrl_pool/error.h"

namespace torchrl_pool::mujoco {
namespace {

// One number for all actuators, or each one's own.
double Chosen(const std::vector<double>& values, std::size_t control) {
  return values.size() == 1 ? values.front() : values[control];
}

void CheckCount(const mjModel& model, const std::string& name, const std::vector<double>& values) {
  if (values.size() != 1 && values.size() != static_cast<std::size_t>(model.nu)) {
    throw InvalidArgument(name + ": expected one number, or one for each of the model's " +
                          std::to_string(model.nu) + " actuators, got " + std::to_string(values.size()));
  }
}

// The hinge or slide that this actuator moves with its only control; -1: none.
int JointOf(const mjModel& model, int actuator) {
  const int joint = model.actuator_trnid[2 * actuator];
  const bool moves_joint = model.actuator_trntype[actuator] == mjTRN_JOINT &&
                           model.actuator_ctrlnum[actuator] == 1 &&
                           (model.jnt_type[joint] == mjJNT_HINGE || model.jnt_type[joint] == mjJNT_SLIDE);
  return moves_joint ? joint : -1;
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
  if (!kp) {
    if (kd != std::vector<double>{0.0}) throw InvalidArgument("kd: only with kp");
    if (target_scale) throw InvalidArgument("target_scale: only with kp");
    return;
  }
  CheckCount(model, "kp", *kp);
  CheckCount(model, "kd", kd);
  if (target_scale) CheckCount(model, "target_scale", *target_scale);
  for (int actuator = 0; actuator < model.nactuator; ++actuator) {
    const int joint = JointOf(model, actuator);
    if (joint < 0) continue;
    const auto control = static_cast<std::size_t>(model.actuator_ctrladr[actuator]);
    Drive drive{control,
                joint,
                static_cast<std::size_t>(model.jnt_qposadr[joint]),
                static_cast<std::size_t>(model.jnt_dofadr[joint]),
                Chosen(*kp, control),
                Chosen(kd, control)};
    if (target_scale) {
      drive.offset = pose[drive.position];
      drive.scale = Chosen(*target_scale, control);
    }
    drives.push_back(drive);
  }
  if (drives.empty()) throw InvalidArgument("kp: no actuator of the model moves a hinge or a slide");
}

std::array<double, 2> ActuationOptions::ActionRange(const mjModel& model, std::size_t control) const {
  for (const Drive& drive : drives) {
    if (drive.control != control) continue;
    if (target_scale) return {-1.0, 1.0};
    if (!model.jnt_limited[drive.joint]) return unlimited_range;
    return {model.jnt_range[2 * drive.joint], model.jnt_range[2 * drive.joint + 1]};
  }
  if (!model.actuator_ctrllimited[control]) return unlimited_range;
  return {model.actuator_ctrlrange[2 * control], model.actuator_ctrlrange[2 * control + 1]};
}

Spec ActuationOptions::ActionSpec(const mjModel& model) const {
  std::vector<double> low, high;
  for (std::size_t i = 0; i < static_cast<std::size_t>(model.nu); ++i) {
    const auto [least, greatest] = ActionRange(model, i);
    low.push_back(least);
    high.push_back(greatest);
  }
  return Action("action", Box<float>({static_cast<std::int64_t>(model.nu)}, low, high),
                (kp ? "targets of joints, or " : "") + ControlNames(model));
}

Actuation::Actuation(const ActuationOptions& options, const mjModel& model, std::int64_t frame_skip)
    : options_(options),
      num_controls_(static_cast<std::size_t>(model.nu)),
      frame_skip_(frame_skip),
      num_kept_(static_cast<std::size_t>(options.action_delay[1] / frame_skip) + 2),
      delay_(options.action_delay[0]),
      actions_((num_kept_ + 1) * num_controls_) {}

void Actuation::Reset(const mjData& data, Rng& rng) {
  steps_ = 0;
  delay_ = rng.Integers(options_.action_delay[0], options_.action_delay[1] + 1);
  std::fill(actions_.begin(), actions_.end(), 0.0);
  double* const before = actions_.data() + num_kept_ * num_controls_;
  std::copy_n(data.ctrl, num_controls_, before);
  for (const ActuationOptions::Drive& drive : options_.drives) {
    before[drive.control] = drive.scale != 0 ? (data.qpos[drive.position] - drive.offset) / drive.scale : 0;
  }
}

void Actuation::Act(const float* action) {
  const std::size_t place = static_cast<std::size_t>(steps_) % num_kept_;
  std::copy_n(action, num_controls_, actions_.data() + place * num_controls_);
  ++steps_;
}

void Actuation::Advance(std::int64_t substep, const mjModel& model, mjData* data) {
  const std::int64_t time = (steps_ - 1) * frame_skip_ + substep - delay_;
  const std::size_t place = time < 0 ? num_kept_ : static_cast<std::size_t>(time / frame_skip_) % num_kept_;
  const double* const action = actions_.data() + place * num_controls_;
  std::copy_n(action, num_controls_, data->ctrl);
  for (const ActuationOptions::Drive& drive : options_.drives) {
    const double target = drive.offset + drive.scale * action[drive.control];
    data->ctrl[drive.control] =
        drive.kp * (target - data->qpos[drive.position]) - drive.kd * data->qvel[drive.velocity];
  }
  mj_step(&model, data);
}

}  // namespace torchrl_pool::mujoco
