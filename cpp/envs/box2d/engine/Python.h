// In front of Python's own, which pybox2d's b2Assert includes: what it asserts is told by a C++ exception.
#ifndef TORCHRL_POOL_ENVS_BOX2D_ENGINE_PYTHON_H_
#define TORCHRL_POOL_ENVS_BOX2D_ENGINE_PYTHON_H_

#include <stdexcept>

#define PyErr_SetString(type, text) throw std::runtime_error("Box2D: assertion failed: " text)

#endif  // TORCHRL_POOL_ENVS_BOX2D_ENGINE_PYTHON_H_
