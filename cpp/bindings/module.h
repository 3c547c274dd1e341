// One function per topic; module.cc lists them.
#ifndef TORCHRL_POOL_BINDINGS_MODULE_H_
#define TORCHRL_POOL_BINDINGS_MODULE_H_

#include <pybind11/pybind11.h>

namespace torchrl_pool::bindings {

void InitBareLoop(pybind11::module_& m);
void InitChain(pybind11::module_& m);
void InitErrors(pybind11::module_& m);
void InitPlugin(pybind11::module_& m);
void InitPool(pybind11::module_& m);
void InitRng(pybind11::module_& m);

}  // namespace torchrl_pool::bindings

#endif  // TORCHRL_POOL_BINDINGS_MODULE_H_
