#include "module.h"

PYBIND11_MODULE(_core, m) {
  using namespace torchrl_pool::bindings;
  m.doc() = "The executor, the plugins and NumPy's random streams; torchrl_pool wraps all of it.";
  InitErrors(m);
  InitGil(m);
  InitEntries(m);
  InitPlugin(m);
  InitChain(m);
  InitWorkers(m);
  InitPool(m);
  InitCalls(m);
  InitRng(m);
}
