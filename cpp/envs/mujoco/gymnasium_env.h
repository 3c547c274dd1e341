// What Gymnasium's MuJoCo tasks have in common. Reference: gymnasium/envs/mujoco/mujoco_env.py and
// mujoco_rendering.py, version 1.4.0.
#ifndef TORCHRL_POOL_ENVS_MUJOCO_GYMNASIUM_ENV_H_
#define TORCHRL_POOL_ENVS_MUJOCO_GYMNASIUM_ENV_H_

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "model.h"
#include "renderer.h"
#include "simulation.h"
#include "torchrl_pool/env.h"

namespace torchrl_pool::mujoco {

// Constructor options of Gymnasium's MujocoEnv. A task's Options derives from it.
struct GymnasiumOptions {
  std::string xml_file;
  std::int64_t frame_skip;
  std::optional<FloatListMap> default_camera_config;
  std::int64_t width = 480;
  std::int64_t height = 480;
  std::optional<std::int64_t> camera_id = std::nullopt;
  std::optional<std::string> camera_name = std::nullopt;
  std::int64_t max_geom = 1000;
  std::optional<FloatListMap> visual_options = std::nullopt;

  // What Open makes of them.
  Model model = nullptr;
  View view = {};

  GymnasiumOptions(std::string xml, std::int64_t skip, std::optional<FloatListMap> camera)
      : xml_file(std::move(xml)), frame_skip(skip), default_camera_config(std::move(camera)) {}

  template <class Visitor>
  void VisitModel(Visitor& visit) {
    visit("xml_file", xml_file,
          "the model: the name of one of Gymnasium's, a path that begins with '.', '/' or '~', or XML text");
    visit("frame_skip", frame_skip, "simulation steps per step",
          Limits<std::int64_t>{.choices = {}, .minimum = 1});
  }
  template <class Visitor>
  void VisitCamera(Visitor& visit) {
    visit("default_camera_config", default_camera_config,
          "attributes of the free camera (mjvCamera), such as {'distance': 4, 'lookat': [0, 0, 1]}");
  }
  template <class Visitor>
  void VisitView(Visitor& visit) {
    const Limits<std::int64_t> positive{.choices = {}, .minimum = 1, .maximum = 16384};
    visit("width", width, "width of pictures (pixels)", positive);
    visit("height", height, "height of pictures (pixels)", positive);
    visit("camera_id", camera_id, "the model's camera to look through, by number; -1: the free camera");
    visit("camera_name", camera_name, "the model's camera to look through, by name");
    visit("max_geom", max_geom, "things that a picture shows at most",
          Limits<std::int64_t>{.choices = {}, .minimum = 1, .maximum = 10'000'000});
    visit("visual_options", visual_options, "mjtVisFlag numbers and whether to show what they stand for");
  }

  void Open();
  // The same with this model: the path of a file, or XML text.
  void OpenModel(const std::string& path);
  // The path of xml_file, or its text where it is text.
  std::string ModelPath() const;

  std::int64_t nq() const { return static_cast<std::int64_t>(model->nq); }
  std::int64_t nv() const { return static_cast<std::int64_t>(model->nv); }
  std::int64_t nbody() const { return static_cast<std::int64_t>(model->nbody); }
  double dt() const { return model->opt.timestep * static_cast<double>(frame_skip); }
  Spec Control() const;

 protected:
  // Throws unless the model has as many positions and velocities as the task reads.
  void NeedCoordinates(std::int64_t least_nq, std::int64_t least_nv) const;

 private:
  void OpenView();
};

// Writes numbers one after the other.
class Writer {
 public:
  explicit Writer(double* out) : out_(out) {}

  Writer& Add(const double* values, std::int64_t count) {
    out_ = std::copy_n(values, count, out_);
    return *this;
  }
  Writer& Add(double value) {
    *out_++ = value;
    return *this;
  }
  // numpy.clip
  Writer& AddClipped(const double* values, std::int64_t count, double low, double high) {
    for (std::int64_t i = 0; i < count; ++i) *out_++ = std::clamp(values[i], low, high);
    return *this;
  }

 private:
  double* out_;
};

// The state of one env and what every task does with it. A task derives from it and adds Reset and Step.
class GymnasiumEnv {
 public:
  explicit GymnasiumEnv(const GymnasiumOptions& options)
      : base_options_(options), simulation_(options.model) {}

  void Seed(Entropy entropy) { rng_ = Rng(entropy); }

  static ImageSize RenderSize(const GymnasiumOptions& options) {
    return {options.view.height, options.view.width};
  }
  void Render(std::uint8_t* rgb) {
    Draw(base_options_.model, model(), simulation_.mutable_data(), base_options_.view, rgb);
  }

  template <class Visitor>
  void VisitState(Visitor& visit) {
    visit(rng_);
    simulation_.VisitState(visit);
  }

 protected:
  const mjData& data() const { return simulation_.data(); }
  const mjModel& model() const { return simulation_.model(); }
  Simulation& simulation() { return simulation_; }
  std::span<const float> Action(const Row& row) const {
    return {row.Action<float>(), static_cast<std::size_t>(model().nu)};
  }

  void StepSimulation(const Row& row) { simulation_.Step(Action(row), base_options_.frame_skip); }

  // The reference's two kinds of noise on the initial positions and velocities.
  void ResetUniform(double scale);
  void ResetUniformNormal(double scale);

  void ResetTo(const std::vector<double>& qpos, const std::vector<double>& qvel) {
    simulation_.Reset(qpos, qvel);
  }
  std::vector<double> InitialPositions() const { return {model().qpos0, model().qpos0 + model().nq}; }
  Rng& rng() { return rng_; }

  // All but the first few positions, then the velocities. The result writes what comes behind.
  Writer WritePositionsAndVelocities(double* out, int num_hidden = 0) const {
    return Writer(out).Add(data().qpos + num_hidden, model().nq - num_hidden).Add(data().qvel, model().nv);
  }

  // weight * numpy.sum(numpy.square(action)): all in float32, as the action.
  float ControlCost(double weight, const Row& row) const;
  // numpy.sum(numpy.square(…)) of the forces on the bodies and of the controls.
  double SquaredContactForces() const;
  double SquaredControls() const;

 private:
  const GymnasiumOptions& base_options_;
  Simulation simulation_;
  Rng rng_;
};

// The older version of a task, registered like the newer one.
inline TaskInfo Version4(TaskInfo task) {
  task.id.back() = '4';
  return task;
}

// ---- how tasks write their rows ----

// An entry of the info dict: written where somebody asked for it, in the dtype that the reference has there.
template <class T>
  requires(std::is_same_v<T, double> || std::is_same_v<T, float> || std::is_same_v<T, std::int64_t> ||
           std::is_same_v<T, bool>)
void PutInfo(const Row& row, int output, T value) {
  if (T* out = row.Out<T>(output)) *out = value;
}
inline void PutInfo(const Row& row, int output, const double* values, std::int64_t count) {
  if (double* out = row.Out<double>(output)) std::copy_n(values, count, out);
}
// At a reset the reference leaves most of its info out, which TorchRL fills with zeros. `control` is the one
// that is a ControlInfo.
inline void ClearInfos(const Row& row, int first, int last, int control = -1) {
  for (int i = first; i <= last; ++i) i == control ? PutInfo(row, i, 0.0f) : PutInfo(row, i, 0.0);
}
template <class T = double>
Spec ScalarInfo(std::string name, std::string help) {
  return Info(std::move(name), Box<T>({}), std::move(help));
}
// What is computed from the action alone is float32, as the action.
inline Spec ControlInfo(std::string name, std::string help) {
  return ScalarInfo<float>(std::move(name), std::move(help));
}

}  // namespace torchrl_pool::mujoco

#endif  // TORCHRL_POOL_ENVS_MUJOCO_GYMNASIUM_ENV_H_
