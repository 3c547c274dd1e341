#include "renderer.h"

#include <algorithm>
#include <list>
#include <vector>

#include "gl_context.h"
#include "library.h"
#include "torchrl_pool/error.h"

namespace torchrl_pool::mujoco {
namespace {

// While this lives, a context is the thread's current one.
class CurrentContext {
 public:
  explicit CurrentContext(GlContext& context) : context_(context), made_(context.MakeCurrent()) {}
  ~CurrentContext() {
    if (made_) context_.Release();
  }
  CurrentContext(const CurrentContext&) = delete;
  explicit operator bool() const { return made_; }

 private:
  GlContext& context_;
  const bool made_;
};

// A model's textures, meshes and framebuffer in the current context.
class Stage {
 public:
  Stage(const Model& model, std::int64_t max_geom) : model_(model) {
    mjr_defaultContext(&context_);
    mjv_defaultScene(&scene_);
    Protect([&] {
      mjv_makeScene(model.get(), &scene_, static_cast<int>(max_geom));
      mjr_makeContext(model.get(), &context_, mjFONTSCALE_150);
      mjr_setBuffer(mjFB_OFFSCREEN, &context_);
    });
  }
  // With its OpenGL context current, unless that is lost.
  ~Stage() {
    mjr_freeContext(&context_);
    mjv_freeScene(&scene_);
  }
  Stage(const Stage&) = delete;

  // The OpenGL context is gone, and with it all that the stage had there: nothing is left to be freed in it.
  void ForgetContext() { mjr_defaultContext(&context_); }

  bool expired() const { return model_.expired(); }
  bool Shows(const Model& model) const { return !expired() && model_.lock() == model; }

  void Draw(const mjModel& shared, const mjModel& model, mjData* data, const View& view, std::uint8_t* rgb) {
    const mjrRect viewport{0, 0, static_cast<int>(view.width), static_cast<int>(view.height)};
    mjvCamera camera = view.camera;
    Protect([&] {
      // An env's own height fields may have changed since the last picture.
      if (model.hfield_data != shared.hfield_data || has_own_terrain_) {
        for (int i = 0; i < model.nhfield; ++i) mjr_uploadHField(&model, &context_, i);
        has_own_terrain_ = model.hfield_data != shared.hfield_data;
      }
      mjvPerturb perturb;
      mjv_defaultPerturb(&perturb);
      mjv_updateScene(&model, data, &view.option, &perturb, &camera, mjCAT_ALL, &scene_);
      mjr_render(viewport, &scene_, &context_);
      mjr_readPixels(rgb, nullptr, viewport, &context_);
    });
  }

 private:
  const std::weak_ptr<const mjModel> model_;
  bool has_own_terrain_ = false;
  mjrContext context_;
  mjvScene scene_;
};

// What one thread draws with. Stages of models that are gone go when the next is built, or with the thread.
class Studio {
 public:
  ~Studio() {
    const CurrentContext current(*context_);
    if (!current) {  // a driver that has shut down before, say
      for (Stage& stage : stages_) stage.ForgetContext();
    }
    stages_.clear();  // while the context is current
  }

  void Draw(const Model& model, const mjModel& own, mjData* data, const View& view, std::uint8_t* rgb) {
    const CurrentContext current(*context_);
    if (!current) throw Unsupported("cannot draw: the OpenGL context cannot be made current in this thread");
    StageOf(model, view.max_geom).Draw(*model, own, data, view, rgb);
  }

 private:
  Stage& StageOf(const Model& model, std::int64_t max_geom) {
    for (Stage& stage : stages_) {
      if (stage.Shows(model)) return stage;
    }
    stages_.remove_if([](const Stage& stage) { return stage.expired(); });
    return stages_.emplace_back(model, max_geom);
  }

  const std::unique_ptr<GlContext> context_ = CreateGlContext();
  std::list<Stage> stages_;
};

// OpenGL's first row is the lowest.
void FlipRows(std::uint8_t* rgb, std::int64_t height, std::int64_t width) {
  const std::int64_t row = width * 3;
  for (std::int64_t top = 0, bottom = height - 1; top < bottom; ++top, --bottom) {
    std::swap_ranges(rgb + top * row, rgb + (top + 1) * row, rgb + bottom * row);
  }
}

}  // namespace

void Draw(const Model& model, const mjModel& own, mjData* data, const View& view, std::uint8_t* rgb) {
  thread_local Studio studio;
  studio.Draw(model, own, data, view, rgb);
  FlipRows(rgb, view.height, view.width);
}

}  // namespace torchrl_pool::mujoco
