// Pictures of a simulation, drawn offscreen.
#ifndef TORCHRL_POOL_ENVS_MUJOCO_RENDERER_H_
#define TORCHRL_POOL_ENVS_MUJOCO_RENDERER_H_

#include <mujoco/mujoco.h>

#include <cstdint>

#include "model.h"

namespace torchrl_pool::mujoco {

// What a picture shows.
struct View {
  std::int64_t height = 0, width = 0;
  std::int64_t max_geom = 0;  // things drawn at most
  mjvCamera camera{};
  mjvOption option{};
};

// Draws into rgb, uint8 [height, width, 3]. Any thread: each that draws has its own OpenGL context, and in it
// one set of textures and meshes per model. `own` is the model or an env's copy of it with other numbers,
// whose height fields are drawn anew with every picture. Throws Unsupported on a machine that cannot draw.
void Draw(const Model& model, const mjModel& own, mjData* data, const View& view, std::uint8_t* rgb);

}  // namespace torchrl_pool::mujoco

#endif  // TORCHRL_POOL_ENVS_MUJOCO_RENDERER_H_
