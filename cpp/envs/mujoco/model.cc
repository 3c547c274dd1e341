#include "model.h"

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <system_error>

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

// A file that lies in memory.
class MemoryFile {
 public:
  static constexpr const char* kName = "model.xml";

  explicit MemoryFile(const std::string& content) {
    mj_defaultVFS(&vfs_);
    mj_addBufferVFS(&vfs_, kName, content.data(), static_cast<int>(content.size()));
  }
  ~MemoryFile() { mj_deleteVFS(&vfs_); }
  MemoryFile(const MemoryFile&) = delete;
  const mjVFS* vfs() const { return &vfs_; }

 private:
  mjVFS vfs_;
};

// As mj_loadXML, in this thread alone, because MuJoCo ends the process where it cannot start others.
mjModel* Compile(const char* path, const mjVFS* vfs, char* error, int size) {
  mjModel* model = nullptr;
  mjSpec* spec = nullptr;
  Protect([&] { spec = mj_parseXML(path, vfs, error, size); });
  if (!spec) return nullptr;
  Protect([&] {
    spec->compiler.usethread = 0;
    model = mj_compile(spec, vfs);
    if (!model) mju_strncpy(error, mjs_getError(spec), size);
    mj_deleteSpec(spec);
  });
  return model;
}

}  // namespace

bool IsXml(const std::string& path) {
  const std::size_t first = path.find_first_not_of(" \t\r\n");
  return first != std::string::npos && path[first] == '<';
}

Model LoadModel(const std::string& path, std::int64_t width, std::int64_t height) {
  StartLibrary();
  char error[900] = "";
  mjModel* model = nullptr;
  if (IsXml(path)) {
    const MemoryFile file(path);
    model = Compile(MemoryFile::kName, file.vfs(), error, sizeof error);
  } else {
    if (!std::filesystem::exists(path)) throw FileNotFound("File " + path + " does not exist");
    if (!std::ifstream(path)) {  // which MuJoCo would call empty
      throw std::system_error(errno, std::generic_category(), "cannot open " + path);
    }
    model = Compile(path.c_str(), nullptr, error, sizeof error);
  }
  if (!model) {
    std::string reason = error;
    reason.erase(reason.find_last_not_of('\n') + 1);
    throw InvalidArgument((IsXml(path) ? "the model's XML" : path) + ": " + reason);
  }
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
