#include "suite.h"

#include <dlfcn.h>

#include <cmath>
#include <filesystem>

#include "actuator_names.h"

namespace torchrl_pool::dm_control {
namespace {

// Where collect.py's files are installed: beside this library.
std::filesystem::path ModelFolder() {
  Dl_info info;
  dladdr(reinterpret_cast<const void*>(&RandomizeJoints), &info);
  return std::filesystem::absolute(info.dli_fname).parent_path() / "dm_control";
}

Spec Control(const mjModel& model) {
  std::vector<double> low, high;
  for (int i = 0; i < model.nu; ++i) {
    const bool is_limited = model.actuator_ctrllimited[i];
    low.push_back(is_limited ? model.actuator_ctrlrange[2 * i] : -mjMAXVAL);
    high.push_back(is_limited ? model.actuator_ctrlrange[2 * i + 1] : mjMAXVAL);
  }
  return Action("action", Box<double>({static_cast<std::int64_t>(model.nu)}, low, high),
                mujoco::ControlNames(model));
}

}  // namespace

void SuiteOptions::Load(const std::string& id, double control_timestep) {
  const auto begin = id.find('/') + 1, dash = id.find('-', begin), end = id.rfind('-');
  task = id.substr(dash + 1, end - dash - 1);
  const std::filesystem::path folder = ModelFolder();
  std::filesystem::path file = folder / (id.substr(begin, end - begin) + ".xml");
  if (!std::filesystem::exists(file)) file = folder / (id.substr(begin, dash - begin) + ".xml");
  model = mujoco::LoadModel(file, width, height);
  if (!n_sub_steps) {
    const double timestep = model->opt.timestep;
    n_sub_steps = control_timestep > 0 ? std::llround(control_timestep / timestep) : 1;
  }
  if (visualize_reward) reward_colors.emplace(*model);
  OpenView();
}

// As dm_control's Camera.
void SuiteOptions::OpenView() {
  view.height = height;
  view.width = width;
  view.max_geom = 1000;
  mjv_defaultOption(&view.option);
  view.option.flags[mjVIS_RANGEFINDER] = 0;
  if (const auto* number = std::get_if<std::int64_t>(&camera_id); number && *number == -1) {
    mjv_defaultFreeCamera(model.get(), &view.camera);
    return;
  }
  mjv_defaultCamera(&view.camera);
  view.camera.type = mjCAMERA_FIXED;
  view.camera.fixedcamid = mujoco::Find(*model, mjOBJ_CAMERA, camera_id);
}

Specs SuiteOptions::MakeSpecs() const {
  Specs specs;
  std::int64_t total = 0;
  for (const Entry& entry : entries) {
    total += entry.size();
    if (!flatten) specs.push_back(Observation(entry.name, Box<double>(entry.shape)));
  }
  if (flatten)
    specs.push_back(Observation("observation", Box<double>({total}), "all that the task observes"));
  specs.push_back(Reward<double>("reward", {1}));
  specs.push_back(
      Info("discount", Box<double>({1}, 0, 1), "0 where an episode ended by its own rules, else 1"));
  specs.push_back(Info("warnings", Box<std::int64_t>({mjNWARNING}),
                       "how often MuJoCo has warned in this episode, by mjtWarning"));
  specs.push_back(Control(*model));
  return specs;
}

void RandomDirection(LegacyRng& random, int size, double* out) {
  for (int i = 0; i < size; ++i) out[i] = random.StandardNormal();
  const double norm = Norm(out, size);
  for (int i = 0; i < size; ++i) out[i] /= norm;
}

void RandomizeJoints(Physics& physics, LegacyRng& random) {
  const mjModel& model = physics.model();
  for (int joint = 0; joint < model.njnt; ++joint) {
    double* position = physics.data().qpos + model.jnt_qposadr[joint];
    const double* range = model.jnt_range + 2 * joint;
    const int type = model.jnt_type[joint];
    if (model.jnt_limited[joint]) {
      if (type == mjJNT_HINGE || type == mjJNT_SLIDE) *position = random.Uniform(range[0], range[1]);
    } else if (type == mjJNT_HINGE) {
      *position = random.Uniform(-kPi, kPi);
    } else if (type == mjJNT_FREE) {
      double* rotation = position + 3;
      for (int i = 0; i < 4; ++i) rotation[i] = random.Random();
      const double norm = Norm(rotation, 4);
      for (int i = 0; i < 4; ++i) rotation[i] /= norm;
    }
  }
}

}  // namespace torchrl_pool::dm_control
