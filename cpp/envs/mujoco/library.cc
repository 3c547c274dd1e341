#include "library.h"

#include <dlfcn.h>
#include <mujoco/mujoco.h>

#include <csetjmp>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <stdexcept>

#include "torchrl_pool/env.h"

namespace torchrl_pool::mujoco {
namespace {

// Where an error of this thread lands. Plain data: a jump runs no destructors.
struct Trap {
  std::jmp_buf frame;
  char message[2000];
};
// The model of thread-local memory: no thread's first look at it allocates, for where that fails the C
// library ends the process.
[[gnu::tls_model("initial-exec")]] thread_local Trap* armed = nullptr;

// Of another plugin that uses the same library, or MuJoCo's own.
mjfLogHandler previous = nullptr;

// Warnings are not shown: those of a step are counted in mjData, where simulations look.
void HandleLog(const mjLogMessage* log) {
  if (log->level != mjLOG_ERROR) return;
  if (!armed) return previous(log);
  std::snprintf(armed->message, sizeof armed->message, "%s%s%s", log->subject, log->body ? ": " : "",
                log->body ? log->body : "");
  std::longjmp(armed->frame, 1);
}

void Start() {
  if (mj_version() != mjVERSION_HEADER) {
    throw std::runtime_error("the MuJoCo library beside this plugin has version " +
                             std::string(mj_versionString()) + ", the plugin was built for " +
                             TRP_MUJOCO_VERSION);
  }
  previous = mju_setLogHandler(HandleLog);
  const std::string extensions = DataFolder() + "/extensions";
  Protect([&] { mj_loadAllPluginLibraries(extensions.c_str(), nullptr); });
}

}  // namespace

namespace internal {

void CallProtected(void (*call)(void*), void* argument) {
  Trap trap;
  Trap* const outer = armed;
  if (_setjmp(trap.frame) == 0) {
    armed = &trap;
    try {
      call(argument);
    } catch (...) {
      armed = outer;  // or the next error would land in a frame that is gone
      throw;
    }
    armed = outer;
    return;
  }
  armed = outer;
  throw std::runtime_error(std::string("MuJoCo: ") + trap.message);
}

}  // namespace internal

const std::string& DataFolder() {
  static const std::string folder = [] {
    Dl_info info;
    dladdr(reinterpret_cast<const void*>(&StartLibrary), &info);
    return (std::filesystem::absolute(info.dli_fname).parent_path() / "mujoco").string();
  }();
  return folder;
}

void StartLibrary() {
  static std::once_flag started;
  std::call_once(started, Start);
}

}  // namespace torchrl_pool::mujoco
