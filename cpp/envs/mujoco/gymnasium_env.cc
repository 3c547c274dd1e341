#include "gymnasium_env.h"

#include <algorithm>
#include <cstdlib>
#include <set>

#include "actuator_names.h"
#include "library.h"
#include "numpy_sum.h"

namespace torchrl_pool::mujoco {
namespace {

// What the free camera looks at where nobody says: the middle of the things that the model shows, component
// by component. The reference takes their places at the time of its first picture; these are those of the
// model's initial state, so that pictures do not depend on what happened before.
void LookAtMedian(const Model& model, mjvCamera* camera) {
  Simulation simulation(model);
  simulation.Reset({model->qpos0, model->qpos0 + model->nq},
                   std::vector<double>(static_cast<std::size_t>(model->nv)));
  const auto count = static_cast<std::size_t>(model->ngeom);
  if (count == 0) return;
  for (std::size_t axis = 0; axis < 3; ++axis) {
    std::vector<double> places(count);
    for (std::size_t i = 0; i < count; ++i) places[i] = simulation.data().geom_xpos[3 * i + axis];
    std::sort(places.begin(), places.end());
    camera->lookat[axis] = (places[(count - 1) / 2] + places[count / 2]) / 2;
  }
}

// Sets the attributes of a camera that a user names.
void Configure(const FloatListMap& config, mjvCamera* camera) {
  for (const auto& [name, numbers] : config) {
    const auto number = [&, &name = name, &numbers = numbers] {
      if (numbers.size() != 1)
        throw InvalidArgument("default_camera_config: '" + name + "' takes one number");
      return numbers[0];
    };
    if (name == "lookat") {
      if (numbers.size() != 3) throw InvalidArgument("default_camera_config: 'lookat' takes three numbers");
      std::copy(numbers.begin(), numbers.end(), camera->lookat);
    } else if (name == "distance") {
      camera->distance = number();
    } else if (name == "azimuth") {
      camera->azimuth = number();
    } else if (name == "elevation") {
      camera->elevation = number();
    } else if (name == "orthographic") {
      camera->orthographic = static_cast<int>(number());
    } else if (name == "type") {
      camera->type = static_cast<int>(number());
    } else if (name == "fixedcamid") {
      camera->fixedcamid = static_cast<int>(number());
    } else if (name == "trackbodyid") {
      camera->trackbodyid = static_cast<int>(number());
    } else {
      throw InvalidArgument("default_camera_config: a camera has no '" + name +
                            "'; it has: type, fixedcamid, trackbodyid, lookat, distance, azimuth, elevation, "
                            "orthographic");
    }
  }
}

void Configure(const FloatListMap& visual_options, mjvOption* option) {
  for (const auto& [flag, values] : visual_options) {
    char* end = nullptr;
    const long number = std::strtol(flag.c_str(), &end, 10);
    if (end == flag.c_str() || *end || number < 0 || number >= mjNVISFLAG || values.size() != 1) {
      throw InvalidArgument("visual_options: expected numbers of mjtVisFlag (0 to " +
                            std::to_string(mjNVISFLAG - 1) + ") with true or false, got '" + flag + "'");
    }
    option->flags[number] = values[0] != 0;
  }
}

}  // namespace

// expand_model_path of the reference.
std::string GymnasiumOptions::ModelPath() const {
  if (IsXml(xml_file)) return xml_file;
  if (xml_file.starts_with('.') || xml_file.starts_with('/')) return xml_file;
  if (xml_file == "~" || xml_file.starts_with("~/")) {
    const char* home = std::getenv("HOME");
    return (home ? home : "~") + xml_file.substr(1);
  }
  return DataFolder() + "/assets/" + xml_file;
}

void GymnasiumOptions::Open() { OpenModel(ModelPath()); }

void GymnasiumOptions::OpenModel(const std::string& path) {
  model = LoadModel(path, width, height);
  OpenView();
}

void GymnasiumOptions::OpenView() {
  if (camera_id && camera_name) {
    throw InvalidArgument("camera_id and camera_name cannot both be given");
  }
  view.height = height;
  view.width = width;
  view.max_geom = max_geom;
  mjv_defaultOption(&view.option);
  if (visual_options) Configure(*visual_options, &view.option);

  mjvCamera& camera = view.camera;
  mjv_defaultCamera(&camera);
  LookAtMedian(model, &camera);
  camera.distance = model->stat.extent;
  if (default_camera_config) Configure(*default_camera_config, &camera);
  camera.type = mjCAMERA_FREE;
  camera.fixedcamid = -1;
  if (camera_name) camera.fixedcamid = Find(*model, mjOBJ_CAMERA, *camera_name);
  if (camera_id && *camera_id != -1) camera.fixedcamid = Find(*model, mjOBJ_CAMERA, *camera_id);
  if (camera.fixedcamid >= 0) camera.type = mjCAMERA_FIXED;
}

Spec GymnasiumOptions::Control() const {
  std::vector<double> low, high;
  for (int i = 0; i < model->nu; ++i) {
    low.push_back(model->actuator_ctrlrange[2 * i]);
    high.push_back(model->actuator_ctrlrange[2 * i + 1]);
  }
  return Action("action", Box<float>({static_cast<std::int64_t>(model->nu)}, low, high),
                ControlNames(*model));
}

void GymnasiumOptions::NeedCoordinates(std::int64_t least_nq, std::int64_t least_nv) const {
  if (nq() >= least_nq && nv() >= least_nv) return;
  throw InvalidArgument("xml_file: the task needs a model with at least " + std::to_string(least_nq) +
                        " positions and " + std::to_string(least_nv) + " velocities, " + xml_file + " has " +
                        std::to_string(nq()) + " and " + std::to_string(nv()));
}

void GymnasiumEnv::ResetUniform(double scale) {
  std::vector<double> qpos = InitialPositions();
  for (double& position : qpos) position += rng_.Uniform(-scale, scale);
  std::vector<double> qvel(static_cast<std::size_t>(model().nv));
  for (double& velocity : qvel) velocity = 0 + rng_.Uniform(-scale, scale);
  ResetTo(qpos, qvel);
}

void GymnasiumEnv::ResetUniformNormal(double scale) {
  std::vector<double> qpos = InitialPositions();
  for (double& position : qpos) position += rng_.Uniform(-scale, scale);
  std::vector<double> qvel(static_cast<std::size_t>(model().nv));
  for (double& velocity : qvel) velocity = 0 + scale * rng_.StandardNormal();
  ResetTo(qpos, qvel);
}

float GymnasiumEnv::ControlCost(double weight, const Row& row) const {
  const auto action = Action(row);
  return static_cast<float>(weight) * SumOfSquares(action.data(), action.size());
}

double GymnasiumEnv::SquaredContactForces() const {
  return SumOfSquares(data().cfrc_ext, static_cast<std::size_t>(model().nbody) * 6);
}

double GymnasiumEnv::SquaredControls() const {
  return SumOfSquares(data().ctrl, static_cast<std::size_t>(model().nu));
}

}  // namespace torchrl_pool::mujoco
