// A compiled model, shared read-only by all envs of a configuration, and the names in it.
#ifndef TORCHRL_POOL_ENVS_MUJOCO_MODEL_H_
#define TORCHRL_POOL_ENVS_MUJOCO_MODEL_H_

#include <mujoco/mujoco.h>

#include <memory>
#include <string>
#include <variant>

#include "torchrl_pool/option.h"

namespace torchrl_pool::mujoco {

using Model = std::shared_ptr<const mjModel>;

// Whether this is a model itself rather than the path of one.
bool IsXml(const std::string& path);

// Compiles the file, or the text. The framebuffer for pictures is made at least this large. Throws
// FileNotFound, or InvalidArgument with MuJoCo's message.
Model LoadModel(const std::string& path, std::int64_t width, std::int64_t height);

// The number of a body, camera, … given by number or name; throws InvalidArgument with the names there are.
int Find(const mjModel& model, mjtObj kind, const IntOrString& which);

}  // namespace torchrl_pool::mujoco

#endif  // TORCHRL_POOL_ENVS_MUJOCO_MODEL_H_
