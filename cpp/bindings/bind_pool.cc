// The pool. Tensors come as addresses: Python has allocated them and checked shapes, dtypes and devices.
#include <pybind11/stl.h>

#include <algorithm>
#include <cstring>
#include <tuple>
#include <utility>

#include "chain.h"
#include "columns.h"
#include "gil.h"
#include "module.h"
#include "pool_handle.h"

namespace py = pybind11;

namespace torchrl_pool::bindings {

bool Interrupted() {
  const GilTaken gil;
  if (!gil) return false;  // whoever waits in a thread that nobody waits for
  if (!PyErr_Occurred()) return PyErr_CheckSignals() != 0;
  const py::error_scope earlier;  // one is on its way already, while what it ended is cleaned up
  const bool stop = PyErr_CheckSignals() != 0;
  if (stop) PyErr_Clear();
  return stop;
}

std::shared_ptr<void> Share(const py::object& object) {
  return {object.inc_ref().ptr(), [](void* pointer) {
            if (const GilTaken gil; gil) Py_DECREF(static_cast<PyObject*>(pointer));
          }};
}

namespace {

using core::Chain;
using core::Config;
using core::Job;
using core::Op;
using core::Pool;

core::WorkerExecutor& WorkersOf(PoolHandle& pool) {
  if (auto* workers = pool->workers()) return *workers;
  throw core::PoolError("expected a pool with worker processes, got one without");
}

using Entropy = std::vector<std::vector<std::uint32_t>>;

void Reset(PoolHandle& pool, const py::list& out, std::uintptr_t mask, Entropy entropy,
           const py::object& owner, const std::vector<std::shared_ptr<core::ResetOptions>>& options,
           const Chain* chain) {
  if (!entropy.empty() && entropy.size() != pool->num_envs()) {
    throw py::value_error("entropy: expected words for each env");
  }
  if (!options.empty() && options.size() != pool->num_envs()) {
    throw py::value_error("options: expected those of each env");
  }
  const Columns columns{pool->layout(), chain};
  auto outputs = columns.Root("out", FromList(out));
  Run(pool, Op::kReset, mask, owner, [&](Job& job) {
    columns.Extend(job);
    job.out.SetBases(outputs);
    job.entropy.swap(entropy);
    job.reset_options.assign(options.begin(), options.end());
  });
}

void Step(PoolHandle& pool, const py::list& actions, const py::list& out, std::uintptr_t mask,
          const py::object& owner, const Chain* chain) {
  const Columns columns{pool->layout(), chain};
  auto inputs = columns.Inputs(FromList(actions));
  auto outputs = columns.Outputs(out);
  Run(pool, Op::kStep, mask, owner, [&](Job& job) {
    columns.Extend(job);
    job.actions.SetBases(inputs);
    job.out.SetBases(outputs);
  });
}

// Tensors [num_envs, num_steps, …].
void Steps(PoolHandle& pool, const py::list& actions, const py::list& out, std::uint32_t num_steps,
           const py::object& owner) {
  if (pool->workers())
    throw core::PoolError("expected a pool whose envs are in threads, got one with workers");
  if (num_steps < 1 || std::uint64_t{pool->num_envs()} * num_steps > core::kMaxEnvs)
    throw py::value_error("num_steps: a call makes from 1 to " +
                          std::to_string(core::kMaxEnvs / pool->num_envs()) + " steps of each env, got " +
                          std::to_string(num_steps));
  const Columns columns{pool->layout(), nullptr};
  auto inputs = columns.Inputs(FromList(actions));
  auto outputs = columns.Outputs(out);
  Run(pool, Op::kSteps, 0, owner, [&](Job& job) {
    job.actions.SetBases(inputs);
    job.out.SetBases(outputs);
    job.num_steps = num_steps;
  });
}

std::uint32_t StepAndReset(PoolHandle& pool, const py::list& actions, const py::list& out,
                           const py::list& root, const py::object& owner, const py::object& meanwhile,
                           const Chain* chain) {
  const Columns columns{pool->layout(), chain};
  auto inputs = columns.Inputs(FromList(actions));
  auto outputs = columns.Outputs(out);
  auto roots = columns.Root("root", FromList(root));
  const auto fill = [&](Job& job) {
    columns.Extend(job);
    job.actions.SetBases(inputs);
    job.out.SetBases(outputs);
    job.root.SetBases(roots);
  };
  if (meanwhile.is_none()) return Run(pool, Op::kStepAndReset, 0, owner, fill);
  return Run(pool, Op::kStepAndReset, 0, owner, fill, [&meanwhile] {
    const GilTaken gil;
    if (!gil) throw core::Interrupted();
    PyObject* result = PyObject_CallNoArgs(meanwhile.ptr());
    if (!result) throw core::Interrupted();  // its error stays set in this thread
    Py_DECREF(result);
  });
}

// Envs that Python works with, between __enter__ and __exit__: nobody else does then.
class Touch {
 public:
  Touch(PoolHandle& pool, std::vector<std::uint32_t> envs) : pool_(pool), envs_(std::move(envs)) {}

  void Enter() {
    const GilReleased released;
    touch_.emplace(*pool_.operator->(), envs_, Pool::Touch::By::kCaller, Interrupted);
  }
  void Exit(const py::args&) { touch_.reset(); }

 private:
  PoolHandle& pool_;
  const std::vector<std::uint32_t> envs_;
  std::optional<Pool::Touch> touch_;
};

core::Batch ToBatch(const Addresses& addresses, const core::Layout& layout) {
  core::Batch batch;
  for (const auto& column : layout.outputs) batch.AddColumn(column.row_bytes);
  batch.SetBases(addresses);
  return batch;
}

void PrepareAsync(PoolHandle& pool, const py::list& out, const py::list& root, py::object owner) {
  const core::Layout& layout = pool->layout();
  auto outputs = ToBatch(FromList("out", out, layout.outputs.size()), layout);
  auto roots = ToBatch(FromRoot("root", root, layout), layout);
  {
    const GilReleased released;  // whoever holds the pool may wait for it
    pool->PrepareAsync(outputs, roots);
  }
  pool.Own(std::move(owner));
}

void Send(PoolHandle& pool, Op op, const std::vector<std::uint32_t>& envs, const py::list& actions,
          bool alone) {
  const std::size_t expected = op == Op::kReset ? 0 : pool->layout().actions.size();
  const Addresses addresses = FromList("actions", actions, expected);
  const GilReleased released;
  pool->Send(op, envs, addresses.data(), alone, Interrupted);
}

// Waits for results, as `wait` does, and copies their rows to the memory that Python's `allocate` gives for
// them: (their envs, how many of them have begun an episode) -> (addresses of `out`, of the root, of the
// envs' numbers). Returns whether there were any in time. Whatever `allocate` throws, the results wait for
// the next receiver then: no interrupt loses any.
template <class WaitForResults>
bool ReceiveInto(PoolHandle& pool, const std::optional<double>& timeout, const py::function& allocate,
                 const WaitForResults& wait) {
  const auto limit = ToDuration(timeout);
  std::optional<core::Outbox::Received> received;
  {
    const GilReleased released;
    received = wait(limit);
  }
  if (!received) return false;
  try {
    const core::Layout& layout = pool->layout();
    const auto resets = std::count(received->resets.begin(), received->resets.end(), std::uint8_t{1});
    const py::tuple memory = allocate(received->envs, resets);
    const auto out = memory[0].cast<py::list>(), root = memory[1].cast<py::list>();
    const Addresses outputs = received->op == Op::kReset ? FromRoot("out", out, layout)
                                                         : FromList("out", out, layout.outputs.size());
    const Addresses roots = root.empty() ? Addresses(layout.outputs.size()) : FromRoot("root", root, layout);
    auto* numbers = reinterpret_cast<std::int64_t*>(memory[2].cast<std::uintptr_t>());
    const GilReleased released;
    std::copy(received->envs.begin(), received->envs.end(), numbers);
    pool->Take(*received, outputs.data(), roots.data());
  } catch (...) {
    pool->PutBack(*received);
    throw;
  }
  return true;
}

bool Receive(PoolHandle& pool, Op op, std::size_t least, std::size_t most,
             const std::optional<double>& timeout, const py::function& allocate) {
  return ReceiveInto(pool, timeout, allocate,
                     [&](const auto& limit) { return pool->Receive(op, least, most, limit, Interrupted); });
}

bool ReceiveAlone(PoolHandle& pool, Op op, std::uint32_t env, const std::optional<double>& timeout,
                  const py::function& allocate) {
  return ReceiveInto(pool, timeout, allocate,
                     [&](const auto& limit) { return pool->ReceiveAlone(op, env, limit, Interrupted); });
}

// dst row i = row rows[i] of the source number groups[i], for each column: (dst, bytes of a row, sources).
void GatherRows(
    const std::vector<std::uint32_t>& groups, const std::vector<std::size_t>& rows,
    const std::vector<std::tuple<std::uintptr_t, std::size_t, std::vector<std::uintptr_t>>>& columns) {
  const GilReleased released;
  for (const auto& [to, bytes, sources] : columns) {
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const std::uintptr_t from = sources.at(groups.at(i)) + rows[i] * bytes;
      std::memcpy(reinterpret_cast<std::byte*>(to) + i * bytes, reinterpret_cast<const std::byte*>(from),
                  bytes);
    }
  }
}

}  // namespace

void InitPool(py::module_& m) {
  py::class_<Touch>(m, "Touch", "Envs that nobody else uses while Python works with them.")
      .def("__enter__", &Touch::Enter)
      .def("__exit__", &Touch::Exit);
  m.def("gather_rows", &GatherRows, py::arg("groups"), py::arg("rows"), py::arg("columns"),
        "Rows of several tensors, one after the other.");

  py::class_<PoolHandle>(m, "Pool", "All envs of a batch and the threads that step them.")
      .def(py::init<const std::vector<std::shared_ptr<Config>>&, const std::vector<std::int64_t>&, int,
                    std::vector<int>, const core::LayoutOptions&, const std::optional<double>&,
                    const py::object&>(),
           py::kw_only(), py::arg("configs"), py::arg("max_episode_steps"), py::arg("num_threads"),
           py::arg("thread_affinity"), py::arg("layout"), py::arg("step_timeout"),
           py::arg("workers") = py::none())
      .def_property_readonly("num_threads", [](PoolHandle& pool) { return pool->num_threads(); })
      .def_property_readonly("outputs",
                             [](PoolHandle& pool) {
                               std::vector<core::Spec> specs;
                               for (const auto& column : pool->layout().outputs) specs.push_back(column.spec);
                               return specs;
                             })
      .def("reset", &Reset, py::arg("out"), py::arg("mask"), py::arg("entropy"), py::arg("owner"),
           py::arg("options") = py::list(), py::arg("chain") = nullptr)
      .def("step", &Step, py::arg("actions"), py::arg("out"), py::arg("mask"), py::arg("owner"),
           py::arg("chain") = nullptr)
      .def("steps", &Steps, py::arg("actions"), py::arg("out"), py::arg("num_steps"), py::arg("owner"))
      .def("step_and_reset", &StepAndReset, py::arg("actions"), py::arg("out"), py::arg("root"),
           py::arg("owner"), py::arg("meanwhile") = py::none(), py::arg("chain") = nullptr)
      .def("prepare_async", &PrepareAsync, py::arg("out"), py::arg("root"), py::arg("owner"))
      .def("send", &Send, py::arg("op"), py::arg("envs"), py::arg("actions"), py::arg("alone"))
      .def("receive", &Receive, py::arg("op"), py::arg("least"), py::arg("most"), py::arg("timeout"),
           py::arg("allocate"))
      .def("receive_alone", &ReceiveAlone, py::arg("op"), py::arg("env"), py::arg("timeout"),
           py::arg("allocate"))
      .def(
          "save",
          [](PoolHandle& pool, std::uint32_t env_index) {
            std::vector<std::uint8_t> bytes;
            {
              const GilReleased released;  // another thread may be drawing a picture
              bytes = pool->Save(env_index, Interrupted);
            }
            return py::bytes(reinterpret_cast<const char*>(bytes.data()), bytes.size());
          },
          py::arg("env_index"))
      .def(
          "load",
          [](PoolHandle& pool, std::uint32_t env_index, const py::bytes& state) {
            const std::string_view view = state;
            const GilReleased released;
            pool->Load(env_index, {reinterpret_cast<const std::uint8_t*>(view.data()), view.size()},
                       Interrupted);
          },
          py::arg("env_index"), py::arg("state"))
      .def(
          "render_size",
          [](PoolHandle& pool, std::uint32_t env_index) { return pool->RenderSize(env_index, Interrupted); },
          py::arg("env_index"), py::call_guard<GilReleased>())
      .def(
          "render",
          [](PoolHandle& pool, std::uint32_t env_index, std::uintptr_t rgb) {
            const GilReleased released;
            pool->Render(env_index, reinterpret_cast<std::uint8_t*>(rgb), Interrupted);
          },
          py::arg("env_index"), py::arg("rgb"))
      .def(
          "touch",
          [](PoolHandle& pool, std::vector<std::uint32_t> envs) {
            return std::make_unique<Touch>(pool, std::move(envs));
          },
          py::arg("envs"), py::keep_alive<0, 1>())
      .def(
          "ended_workers", [](PoolHandle& pool) { return WorkersOf(pool).Ended(); },
          py::call_guard<GilReleased>())
      .def(
          "replace_worker",
          [](PoolHandle& pool, int worker, int process) { WorkersOf(pool).Replace(worker, process); },
          py::arg("worker"), py::arg("process"))
      .def("close", &PoolHandle::Close, py::call_guard<GilReleased>());
}

}  // namespace torchrl_pool::bindings
