// The MuJoCo library: a copy of the Python package's, with global state of its own (see collect.py).
//
// MuJoCo reports a programming error or an impossible situation through a handler that must not return, and
// by default ends the process. Here the handler jumps back to the call, which throws.
#ifndef TORCHRL_POOL_ENVS_MUJOCO_LIBRARY_H_
#define TORCHRL_POOL_ENVS_MUJOCO_LIBRARY_H_

#include <string>
#include <type_traits>

namespace torchrl_pool::mujoco {

// Where this family's models and licences are installed.
const std::string& DataFolder();

// Installs the handler and loads MuJoCo's own extensions, once. Throws where the library is not the version
// that this was compiled for.
void StartLibrary();

namespace internal {
void CallProtected(void (*call)(void*), void* argument);
}

// Calls MuJoCo; throws std::runtime_error with MuJoCo's message where it reports an error. The function must
// own nothing that needs a destructor while it is in MuJoCo: an error jumps over it.
template <class Function>
void Protect(Function&& function) {
  internal::CallProtected([](void* f) { (*static_cast<std::remove_reference_t<Function>*>(f))(); },
                          &function);
}

}  // namespace torchrl_pool::mujoco

#endif  // TORCHRL_POOL_ENVS_MUJOCO_LIBRARY_H_
