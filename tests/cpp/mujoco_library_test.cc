// Errors inside MuJoCo, whichever way they leave it.
#include <mujoco/mujoco.h>

#include <cstring>
#include <stdexcept>
#include <string>

#include "../../cpp/envs/mujoco/library.h"
#include "check.h"
#include "concurrency.h"

namespace torchrl_pool::mujoco {
namespace {

TEST(AnErrorOfMuJoCoIsAnException) {
  StartLibrary();
  CHECK_THROWS(std::runtime_error, "MuJoCo: it broke", Protect([] { mju_error("it broke"); }));
}

// Overwrites what frames that are gone have left on the stack.
[[gnu::noinline]] void Overwrite() {
  volatile char bytes[1 << 14];
  for (auto& byte : bytes) byte = 0x55;
}

// What the next error lands in is the call around it, not one that an exception has left.
int RaiseAfterAnException() {
  int exceptions = 0;
  try {
    Protect([&] {
      try {
        Protect([] { throw std::logic_error("not MuJoCo's"); });
      } catch (const std::logic_error&) {
        ++exceptions;
      }
      Overwrite();
      mju_error("it broke");
    });
  } catch (const std::runtime_error& error) {
    return exceptions == 1 && std::strcmp(error.what(), "MuJoCo: it broke") == 0 ? 0 : 1;
  }
  return 2;
}

TEST(AnExceptionDisarmsTheTrap) {
  StartLibrary();
  CHECK_EQ(test::RunInChild(20, RaiseAfterAnException), 0);  // the child may crash
}

}  // namespace
}  // namespace torchrl_pool::mujoco
