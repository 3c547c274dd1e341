// Steps whose results the executor writes into the batch of a rollout.
#include <pybind11/stl.h>

#include <cstddef>
#include <cstdint>
#include <tuple>
#include <utility>
#include <vector>

#include "call.h"
#include "chain.h"
#include "columns.h"
#include "constructor.h"
#include "errors.h"
#include "gil.h"
#include "module.h"
#include "plain_tensors.h"
#include "pool_handle.h"
#include "tensor_memory.h"

namespace py = pybind11;

namespace torchrl_pool::bindings {
namespace {

using core::Chain;
using core::Op;

// Steps of all envs from dictionaries of tensors to dictionaries of tensors, each in one call.
class RolloutSteps {
 public:
  RolloutSteps(PoolHandle& pool, const RolloutRows& rows, const PlainTensors& inputs,
               const PlainTensors& recorded, TensorMemory& roots, const Chain* chain)
      : pool_(pool), rows_(rows), inputs_(inputs), recorded_(recorded), roots_(roots), chain_(chain) {}

  // The next root by key. None: an entry is not just as the executor reads it, and nothing has happened.
  py::object Make(std::size_t step, const py::dict& entries, const py::object& owner) {
    std::vector<core::Rows> inputs, sources;
    py::list owners;
    if (!inputs_.FindIn(entries, false, inputs, owners) || !recorded_.FindIn(entries, true, sources, owners))
      return py::none();
    std::vector<std::size_t> places;
    py::dict root = roots_.MakeAt(places);
    owners.append(root);
    owners.append(owner);
    Addresses actions, to;
    for (const core::Rows& one : inputs) actions.push_back(one.base);
    for (const std::size_t place : places) to.push_back(reinterpret_cast<std::byte*>(place));
    Call call{Op::kStepAndReset, std::move(actions), {}, std::move(to), chain_};
    call.into.emplace(RolloutStep{rows_, step, std::move(sources)});
    Run(pool_, std::move(call), owners);
    return std::move(root);
  }

 private:
  PoolHandle& pool_;  // Python keeps all of them
  const RolloutRows& rows_;
  const PlainTensors &inputs_, &recorded_;
  TensorMemory& roots_;
  const Chain* const chain_;
};

}  // namespace

void InitRollout(py::module_& m) {
  py::class_<RolloutSteps>(m, "RolloutSteps", "Steps of all envs from tensors to tensors.")
      .def("__init__",
           Constructor<RolloutSteps, PoolHandle&, const RolloutRows&, const PlainTensors&,
                       const PlainTensors&, TensorMemory&, const Chain*>(),
           kConstructs, py::kw_only(), py::arg("pool"), py::arg("rows"), py::arg("inputs"),
           py::arg("recorded"), py::arg("roots"), py::arg("chain"), py::keep_alive<1, 2>(),
           py::keep_alive<1, 3>(), py::keep_alive<1, 4>(), py::keep_alive<1, 5>(), py::keep_alive<1, 6>(),
           py::keep_alive<1, 7>())
      .def("make", &RolloutSteps::Make, py::arg("step"), py::arg("entries"), py::arg("owner"),
           "The next root by key, or None where an entry is not just as the executor reads it.");
}

}  // namespace torchrl_pool::bindings
