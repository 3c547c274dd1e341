// One function per topic; module.cc lists them.
#ifndef TORCHRL_POOL_BINDINGS_MODULE_H_
#define TORCHRL_POOL_BINDINGS_MODULE_H_

#include <pybind11/pybind11.h>

#include <memory>

#include "errors.h"
#include "workers/worker_executor.h"

namespace torchrl_pool::bindings {

// As Python calls a trp_role.
constexpr const char* kRoleNames[] = {"action", "observation", "info", "reward", "done"};

// Whether Python wants a wait to end: a signal handler raised. Its error stays set in this thread.
bool Interrupted();

// Raises Python's EnvFailure, with what the call has written.
void SetError(const core::EnvFailure& failure, const pybind11::object& tensors);

// A reference that any thread may drop.
std::shared_ptr<void> Share(const pybind11::object& object);

// What a torchrl_pool._workers.WorkerSet has to say to a executor.
core::WorkerOptions ToWorkerOptions(const pybind11::object& workers);

void InitCalls(pybind11::module_& m);  // after InitPool
void InitChain(pybind11::module_& m);
void InitEntries(pybind11::module_& m);
void InitErrors(pybind11::module_& m);
void InitGil(pybind11::module_& m);
void InitPlugin(pybind11::module_& m);
void InitPool(pybind11::module_& m);
void InitRng(pybind11::module_& m);
void InitWorkers(pybind11::module_& m);

}  // namespace torchrl_pool::bindings

#endif  // TORCHRL_POOL_BINDINGS_MODULE_H_
