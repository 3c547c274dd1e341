// An offscreen OpenGL context, of the kind that the environment variable MUJOCO_GL names.
#ifndef TORCHRL_POOL_ENVS_MUJOCO_GL_CONTEXT_H_
#define TORCHRL_POOL_ENVS_MUJOCO_GL_CONTEXT_H_

#include <memory>

namespace torchrl_pool::mujoco {

class GlContext {
 public:
  virtual ~GlContext() = default;

  // For this thread, until Release, which brings back what was current before. False where the system
  // refuses.
  virtual bool MakeCurrent() = 0;
  virtual void Release() = 0;
};

// MUJOCO_GL as in the Python package `mujoco`: "egl" or "osmesa"; unset (or "on", …): EGL, else OSMesa;
// "off", …: none. MUJOCO_EGL_DEVICE_ID picks one of EGL's devices. Throws Unsupported, saying what was tried.
std::unique_ptr<GlContext> CreateGlContext();

}  // namespace torchrl_pool::mujoco

#endif  // TORCHRL_POOL_ENVS_MUJOCO_GL_CONTEXT_H_
