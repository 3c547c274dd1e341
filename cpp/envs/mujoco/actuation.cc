#include "actuation.h"

#include <algorithm>
#include <string>

#include "torchrl_pool/error.h"

namespace torchrl_pool::mujoco {
namespace {

double One(const char* option, const std::vector<double>& values, int i, int count) {
  if (values.size() == 1) return values[0];
  if (values.size() == static_cast<std::size_t>(count)) return values[static_cast<std::size_t>(i)];
  throw InvalidArgument(std::string(option) + ": expected one number, or one for each of the model's " +
                        std::to_string(count) + " actuators, got " + std::to_string(values.size()));
}

}  // namespace

void ActuationOptions::Open(const mjModel& model, const double* pose) {
  if (action_delay[0] < 0 || action_delay[0] > action_delay[1] || action_delay[1] > 10'000) {
    throw InvalidArgument("action_delay: expected least and most simulation steps, from 0 to 10,000");
  }
  if (!(unlimited_range[0] < unlimited_range[1])) {
    throw InvalidArgument("unlimited_range: expected the least one first");
  }
  if (model.nu == 0) throw InvalidArgument("the model has no actuators: nothing could be its action");
  if (!kp) {
    if (target_scale) throw InvalidArgument("target_scale: only with kp");
    return;
  }
  const int count = static_cast<int>(model.nactuator);
  for (int i = 0; i < count; ++i) {
    const char* name = mj_id2name(&model, mjOBJ_ACTUATOR, i);
    std::string actuator = std::to_string(i);
    if (name && *name) actuator = std::string("'") + name + "'";
    const int joint = model.actuator_trnid[2 * i];
    const bool moves_joint = model.actuator_trntype[i] == mjTRN_JOINT && model.actuator_ctrlnum[i] == 1 &&
                             (model.jnt_type[joint] == mjJNT_HINGE || model.jnt_type[joint] == mjJNT_SLIDE);
    if (!moves_joint) {
      throw InvalidArgument("kp: the actuator " + actuator +
                            " moves no hinge or slide, which could have a target");
    }
    Drive drive{.position = static_cast<std::size_t>(model.jnt_qposadr[joint]),
                .velocity = static_cast<std::size_t>(model.jnt_dofadr[joint]),
                .kp = One("kp", *kp, i, count),
                .kd = One("kd", kd, i, count),
                .offset = 0,
                .scale = 1,
                .low = unlimited_range[0],
                .high = unlimited_range[1]};
    if (target_scale) {
      drive.offset = pose[drive.position];
      drive.scale = One("target_scale", *target_scale, i, count);
      drive.low = -1;
      drive.high = 1;
    } else if (model.jnt_limited[joint]) {
      drive.low = model.jnt_range[2 * joint];
      drive.high = model.jnt_range[2 * joint + 1];
    }
    drives.push_back(drive);
  }
}

Spec ActuationOptions::ActionSpec(const mjModel& model) const {
  std::vector<double> low, high;
  for (std::size_t i = 0; i < static_cast<std::size_t>(model.nu); ++i) {
    if (!drives.empty()) {
      low.push_back(drives[i].low);
      high.push_back(drives[i].high);
    } else {
      const bool limited = model.actuator_ctrllimited[i];
      const double* const range = limited ? model.actuator_ctrlrange + 2 * i : unlimited_range.data();
      low.push_back(range[0]);
      high.push_back(range[1]);
    }
  }
  return Action("action", Box<float>({static_cast<std::int64_t>(model.nu)}, low, high),
                drives.empty() ? "controls of the actuators" : "targets of the actuators' joints");
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
  for (std::size_t i = 0; i < num_controls_; ++i) {
    if (options_.drives.empty()) {
      before[i] = data.ctrl[i];
    } else {
      const ActuationOptions::Drive& drive = options_.drives[i];
      before[i] = drive.scale != 0 ? (data.qpos[drive.position] - drive.offset) / drive.scale : 0;
    }
  }
}

void Actuation::Act(const float* action) {
  const std::size_t place = static_cast<std::size_t>(steps_) % num_kept_;
  std::copy_n(action, num_controls_, actions_.data() + place * num_controls_);
  ++steps_;
}

void Actuation::Control(std::int64_t substep, mjData* data) const {
  const std::int64_t time = (steps_ - 1) * frame_skip_ + substep - delay_;
  const std::size_t place = time < 0 ? num_kept_ : static_cast<std::size_t>(time / frame_skip_) % num_kept_;
  const double* const action = actions_.data() + place * num_controls_;
  if (options_.drives.empty()) {
    std::copy_n(action, num_controls_, data->ctrl);
    return;
  }
  for (std::size_t i = 0; i < num_controls_; ++i) {
    const ActuationOptions::Drive& drive = options_.drives[i];
    const double target = drive.offset + drive.scale * action[i];
    data->ctrl[i] = drive.kp * (target - data->qpos[drive.position]) - drive.kd * data->qvel[drive.velocity];
  }
}

}  // namespace torchrl_pool::mujoco
