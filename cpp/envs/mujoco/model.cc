#include "model.h"

#include <algorithm>
#include <filesystem>

#include "library.h"
#include "torchrl_pool/error.h"

namespace torchrl_pool::mujoco {
namespace {

int Count(const mjModel& model, mjtObj kind) {
  switch (kind) {
    case mjOBJ_BODY:
      return static_cast<int>(model.nbody);
    case mjOBJ_CAMERA:
      return static_cast<int>(model.ncam);
    default:
      throw InvalidArgument("nothing of this kind can be looked up");
  }
}

std::string Names(const mjModel& model, mjtObj kind) {
  std::string names;
  for (int i = 0; i < Count(model, kind); ++i) {
    const char* name = mj_id2name(&model, kind, i);
    if (name) names += (names.empty() ? "'" : ", '") + std::string(name) + "'";
  }
  return names.empty() ? "none with a name" : names;
}

}  // namespace

Model LoadModel(const std::string& path, std::int64_t width, std::int64_t height) {
  StartLibrary();
  if (!std::filesystem::exists(path)) throw FileNotFound("File " + path + " does not exist");
  char error[1000] = "";
  mjModel* model = nullptr;
  Protect([&] { model = mj_loadXML(path.c_str(), nullptr, error, sizeof error); });
  if (!model) throw InvalidArgument(path + ": " + error);
  auto& global = model->vis.global;
  global.offwidth = std::max(global.offwidth, static_cast<int>(width));
  global.offheight = std::max(global.offheight, static_cast<int>(height));
  return Model(model, [](mjModel* m) { mj_deleteModel(m); });
}

int Find(const mjModel& model, mjtObj kind, const IntOrString& which) {
  const std::string type = mju_type2Str(kind);
  if (const auto* name = std::get_if<std::string>(&which)) {
    const int id = mj_name2id(&model, kind, name->c_str());
    if (id < 0) {
      throw InvalidArgument("invalid " + type + " name '" + *name +
                            "'; the model has: " + Names(model, kind));
    }
    return id;
  }
  const std::int64_t id = std::get<std::int64_t>(which);
  if (id < 0 || id >= Count(model, kind)) {
    throw InvalidArgument("invalid " + type + " id " + std::to_string(id) + "; the model has " +
                          std::to_string(Count(model, kind)) + ": " + Names(model, kind));
  }
  return static_cast<int>(id);
}

}  // namespace torchrl_pool::mujoco
