// Steps whose results the executor writes into the batch of a rollout.
#include <pybind11/stl.h>

#include <cstddef>
#include <cstdint>
#include <tuple>
#include <utility>
#include <vector>

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
using core::Job;
using core::Op;
using core::Pool;

// Where a rollout's batch has the rows of consecutive envs: in each column, that of the first one at step 0,
// and the bytes from an env's row to the next env's and from a step to the next.
struct RolloutRows {
  using Column = std::tuple<std::uintptr_t, std::size_t, std::size_t>;

  std::uint32_t first, count;
  std::vector<Column> outputs;  // without an address: the row goes to the next root instead
  std::vector<Column> recorded;
  std::vector<std::size_t> recorded_bytes;  // of a row
  std::vector<std::size_t> output_strides = {};

  static std::byte* At(const Column& column, std::size_t step) {
    const auto& [address, env_stride, step_stride] = column;
    return address == 0 ? nullptr : reinterpret_cast<std::byte*>(address) + step * step_stride;
  }
};

std::unique_ptr<RolloutRows> MakeRolloutRows(std::uint32_t first, std::uint32_t count,
                                             std::vector<RolloutRows::Column> outputs,
                                             std::vector<RolloutRows::Column> recorded,
                                             std::vector<std::size_t> recorded_bytes) {
  if (recorded.size() != recorded_bytes.size()) throw py::value_error("expected a size for each column");
  auto rows = std::make_unique<RolloutRows>(
      RolloutRows{first, count, std::move(outputs), std::move(recorded), std::move(recorded_bytes)});
  for (const auto& column : rows->outputs) rows->output_strides.push_back(std::get<1>(column));
  return rows;
}

// A step whose rows lie in a rollout's batch. Addresses, and sources, are those of the first env's row.
auto FillRolloutStep(PoolHandle& pool, const RolloutRows& rows, std::size_t step, Addresses actions,
                     Addresses root, const std::vector<core::Rows>& sources, const Chain* chain) {
  const Columns columns{pool->layout(), chain};
  auto inputs = columns.Inputs(std::move(actions));
  auto roots = columns.Root("root", std::move(root));
  if (rows.outputs.size() != roots.size()) throw py::value_error("expected an output for each column");
  Addresses outputs(roots);
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (std::byte* address = RolloutRows::At(rows.outputs[i], step)) outputs[i] = address;
  }
  if (sources.size() != rows.recorded.size()) throw py::value_error("expected a source for each column");
  std::vector<core::RecordedColumn> recorded(sources.size());
  for (std::size_t i = 0; i < sources.size(); ++i) {
    const auto& [from, from_stride] = sources[i];
    const std::size_t stride = std::get<1>(rows.recorded[i]);
    std::byte* const to = RolloutRows::At(rows.recorded[i], step);
    recorded[i] = {{from - rows.first * from_stride, from_stride},
                   {to - rows.first * stride, stride},
                   rows.recorded_bytes[i]};
  }
  return [&rows, columns, inputs = std::move(inputs), outputs = std::move(outputs), roots = std::move(roots),
          recorded = std::move(recorded)](Job& job) mutable {
    columns.Extend(job);
    job.actions.SetBases(inputs);
    job.out.SetBases(outputs);
    job.out.SetStrides(rows.output_strides);
    job.root.SetBases(roots);
    for (core::Batch* batch : {&job.actions, &job.out, &job.root}) batch->BeginAt(rows.first);
    job.recorded.swap(recorded);
    job.completes_root = true;
  };
}

std::vector<core::Rows> SourcesOf(const RolloutRows& rows, const py::list& list) {
  const Addresses addresses = FromList("sources", list, rows.recorded_bytes.size());
  std::vector<core::Rows> sources(addresses.size());
  for (std::size_t i = 0; i < sources.size(); ++i) sources[i] = {addresses[i], rows.recorded_bytes[i]};
  return sources;
}

// Of all envs.
std::uint32_t StepInto(PoolHandle& pool, const RolloutRows& rows, std::size_t step, const py::list& actions,
                       const py::list& root, const py::list& sources, const py::object& owner,
                       const Chain* chain, bool resets) {
  return Run(
      pool, resets ? Op::kStepAndReset : Op::kStep, 0, owner,
      FillRolloutStep(pool, rows, step, FromList(actions), FromList(root), SourcesOf(rows, sources), chain));
}

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
    Run(pool_, Op::kStepAndReset, 0, owners,
        FillRolloutStep(pool_, rows_, step, std::move(actions), std::move(to), sources, chain_));
    return std::move(root);
  }

 private:
  PoolHandle& pool_;  // Python keeps all of them
  const RolloutRows& rows_;
  const PlainTensors &inputs_, &recorded_;
  TensorMemory& roots_;
  const Chain* const chain_;
};

// A job in flight, for Python to wait for once. Made before it takes off, so that no interrupt comes
// between the submission and the knowledge of it.
struct Flight {
  Job* job = nullptr;
};

void SubmitInto(PoolHandle& pool, Flight& flight, const RolloutRows& rows, std::size_t step,
                const py::list& actions, const py::list& root, const py::list& sources,
                const py::object& owner, const Chain* chain) {
  if (flight.job) throw core::PoolError("this step is in flight: wait for it first");
  auto fill =
      FillRolloutStep(pool, rows, step, FromList(actions), FromList(root), SourcesOf(rows, sources), chain);
  const auto shared = Share(owner);
  const GilReleased released;
  Job& job = Begin(pool, Op::kStepAndReset, shared, [&](Job& begun) {
    fill(begun);
    pool->Select(begun, core::EnvRange{rows.first, rows.count});
  });
  pool->Submit(job, Pool::Await::kLater, Interrupted);
  flight.job = &job;
}

std::uint32_t Wait(PoolHandle& pool, Flight& flight) {
  if (!flight.job) throw core::PoolError("this step is not in flight");
  Job& job = *std::exchange(flight.job, nullptr);
  try {
    const GilReleased released;
    return pool->Wait(job, Interrupted);
  } catch (const core::Interrupted&) {
    flight.job = &job;  // it is still in flight
    throw;
  } catch (const core::PoolError&) {
    flight.job = &job;
    throw;
  }
}

}  // namespace

void InitRollout(py::module_& m) {
  py::class_<RolloutRows>(m, "RolloutRows", "Where a rollout's batch has the rows of consecutive envs.")
      .def("__init__", Constructor(&MakeRolloutRows), kConstructs, py::kw_only(), py::arg("first"),
           py::arg("count"), py::arg("outputs"), py::arg("recorded"), py::arg("recorded_bytes"));
  py::class_<Flight>(m, "Flight", "A step of some envs, from its submission to the end of the wait for it.")
      .def("__init__", Constructor<Flight>(), kConstructs)
      .def_property_readonly("in_flight", [](const Flight& flight) { return flight.job != nullptr; });
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
  auto pool = py::reinterpret_borrow<py::class_<PoolHandle>>(m.attr("Pool"));
  pool.def("step_into", &StepInto, py::arg("rows"), py::arg("step"), py::arg("actions"), py::arg("root"),
           py::arg("sources"), py::arg("owner"), py::arg("chain") = nullptr, py::arg("resets") = true)
      .def("submit_into", &SubmitInto, py::arg("flight"), py::arg("rows"), py::arg("step"),
           py::arg("actions"), py::arg("root"), py::arg("sources"), py::arg("owner"),
           py::arg("chain") = nullptr)
      .def("wait", &Wait, py::arg("flight"));
}

}  // namespace torchrl_pool::bindings
