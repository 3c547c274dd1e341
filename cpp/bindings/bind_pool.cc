// The pool. Tensors come as addresses: Python has allocated them and checked shapes, dtypes and devices.
#include <pybind11/stl.h>

#include <algorithm>
#include <cstring>
#include <tuple>
#include <utility>

#include "call.h"
#include "chain.h"
#include "columns.h"
#include "constructor.h"
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

// Envs that Python works with, between __enter__ and __exit__: no other thread uses them meanwhile.
class ExclusiveAccess {
 public:
  ExclusiveAccess(py::object pool, std::vector<std::uint32_t> envs)
      : pool_(std::move(pool)), envs_(std::move(envs)) {}

  void Enter() {
    auto& pool = pool_.cast<PoolHandle&>();
    const GilReleased released;
    access_.emplace(*pool.operator->(), envs_, Interrupted);
  }
  void Exit(const py::args&) {
    const GilReleased released;
    access_.reset();
  }

 private:
  const py::object pool_;
  const std::vector<std::uint32_t> envs_;
  std::optional<Pool::ExclusiveAccess> access_;
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
  auto roots = ToBatch(FromList("root", root, layout.outputs.size()), layout);
  {
    const GilReleased released;  // whoever holds the pool may wait for it
    pool->PrepareAsync(outputs, roots);
  }
  pool.Own(std::move(owner));
}

// Row i of the inputs is the i-th env's, and the receiver gets `cargo` back with the number i.
void Send(PoolHandle& pool, Op op, const std::vector<std::uint32_t>& envs, const py::list& inputs,
          bool is_single, const py::object& cargo, std::optional<ResetArguments> given) {
  Call call{op, FromList(inputs), {}, {}, nullptr, {}, std::move(given)};
  CheckCount("inputs", call.inputs, op == Op::kReset ? 0 : pool->layout().actions.size());
  auto shared = Share(cargo);
  const GilReleased released;
  Job& job = Begin(*pool.operator->(), call, nullptr, [&](Job& begun) {
    pool->Select(begun, std::span<const std::uint32_t>(envs));
    begun.is_single = is_single;
    begun.cargo = std::move(shared);
  });
  pool->Submit(job, core::Delivery::kOneByOne, Interrupted);
}

// Results that Python is about to take over. They are the pool's again, to be received once more, if they go
// out of scope before they are accepted, or are put back: so an interrupt at any moment loses none.
class Received {
 public:
  explicit Received(py::object pool) : owner_(std::move(pool)), pool_(owner_.cast<PoolHandle&>()) {}
  ~Received() {
    if (!received_.is_accepted && !received_.envs.empty()) PutBack();
    const GilReleased released;  // what was sent asks for it to be let go of
    received_.cargo.clear();
  }
  Received(const Received&) = delete;
  Received& operator=(const Received&) = delete;

  // Results that are ready, as Pool::Receive and ReceiveAlone give them. False: too few within the timeout.
  bool Receive(Op op, std::size_t least, std::size_t most, const std::optional<double>& timeout,
               std::optional<std::uint32_t> env) {
    const auto limit = ToDuration(timeout);
    const GilReleased released;
    auto received = env ? pool_->ReceiveAlone(op, *env, limit, Interrupted)
                        : pool_->Receive(op, least, most, limit, Interrupted);
    if (!received) return false;
    received_ = std::move(*received);
    return true;
  }

  const std::vector<std::uint32_t>& envs() const { return received_.envs; }
  std::ptrdiff_t num_resets() const {
    return std::count(received_.resets.begin(), received_.resets.end(), std::uint8_t{1});
  }
  // What each env was sent with, and its row there.
  py::list cargo() const {
    py::list list(received_.cargo.size());
    for (std::size_t i = 0; i < received_.cargo.size(); ++i) {
      const auto& [whole, row] = received_.cargo[i];
      list[i] = py::make_tuple(py::handle(static_cast<PyObject*>(whole.get())), row);
    }
    return list;
  }

  // To tensors for these envs; `numbers`: the address of an int64 for each, which gets the env's number.
  void CopyRows(const py::list& out, const py::list& root, std::uintptr_t numbers) {
    const std::size_t columns = pool_->layout().outputs.size();
    const Addresses outputs = FromList("out", out, columns);
    const Addresses roots = root.empty() ? Addresses(columns) : FromList("root", root, columns);
    const GilReleased released;
    std::copy(envs().begin(), envs().end(), reinterpret_cast<std::int64_t*>(numbers));
    pool_->CopyRowsOf(received_, outputs.data(), roots.data());
  }
  void Accept() {
    const GilReleased released;
    pool_->Accept(received_);
  }
  void PutBack() {
    const GilReleased released;
    pool_.PutBack(received_);
    received_.is_accepted = true;  // nothing is left to be put back
  }

 private:
  const py::object owner_;  // of `pool_`
  PoolHandle& pool_;
  core::Outbox::Received received_;
};

// None: too few within the timeout. Made before anything is received, so that nothing is lost where memory
// runs out.
std::unique_ptr<Received> Receive(const py::object& pool, Op op, std::size_t least, std::size_t most,
                                  const std::optional<double>& timeout, std::optional<std::uint32_t> env) {
  auto received = std::make_unique<Received>(pool);
  return received->Receive(op, least, most, timeout, env) ? std::move(received) : nullptr;
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
  m.def("gather_rows", &GatherRows, py::arg("groups"), py::arg("rows"), py::arg("columns"),
        "Rows of several tensors, one after the other.");

  py::class_<PoolHandle> pool(m, "Pool", "All envs of a batch and the threads that step them.");
  py::class_<ExclusiveAccess>(m, "ExclusiveAccess",
                              "Envs that no other thread uses while Python works with them.")
      .def("__enter__", &ExclusiveAccess::Enter)
      .def("__exit__", &ExclusiveAccess::Exit);
  py::class_<Received>(m, "Received", "Results that were sent for, until they are accepted.")
      .def_property_readonly("envs", &Received::envs)
      .def_property_readonly("num_resets", &Received::num_resets)
      .def_property_readonly("cargo", &Received::cargo)
      .def("copy_rows", &Received::CopyRows, py::arg("out"), py::arg("root"), py::arg("numbers"))
      .def("accept", &Received::Accept)
      .def("put_back", &Received::PutBack);

  pool.def("__init__",
           Constructor<PoolHandle, const std::vector<std::shared_ptr<Config>>&,
                       const std::vector<std::int64_t>&, int, std::vector<int>, const core::LayoutOptions&,
                       const std::optional<double>&, const py::object&>(),
           kConstructs, py::kw_only(), py::arg("configs"), py::arg("max_episode_steps"),
           py::arg("num_threads"), py::arg("thread_affinity"), py::arg("layout"), py::arg("step_timeout"),
           py::arg("workers") = py::none())
      .def_property_readonly("num_threads", [](PoolHandle& pool) { return pool->num_threads(); })
      .def_property_readonly("outputs",
                             [](PoolHandle& pool) {
                               std::vector<core::Spec> specs;
                               for (const auto& column : pool->layout().outputs) specs.push_back(column.spec);
                               return specs;
                             })
      .def("prepare_async", &PrepareAsync, py::arg("out"), py::arg("root"), py::arg("owner"))
      .def("send", &Send, py::arg("op"), py::arg("envs"), py::arg("inputs"), py::arg("is_single"),
           py::arg("cargo"), py::arg("given") = py::none())
      .def("receive", &Receive, py::arg("op"), py::arg("least"), py::arg("most"), py::arg("timeout"),
           py::arg("env"))
      .def(
          "save",
          [](PoolHandle& handle, const std::vector<std::uint32_t>& envs) {
            std::vector<std::vector<std::uint8_t>> states;
            {
              const GilReleased released;
              states = handle->Save(envs, Interrupted);
            }
            py::list list(states.size());
            for (std::size_t i = 0; i < states.size(); ++i) {
              list[i] = py::bytes(reinterpret_cast<const char*>(states[i].data()), states[i].size());
            }
            return list;
          },
          py::arg("envs"), "The states of these envs, which ascend.")
      .def(
          "load",
          [](PoolHandle& handle, const std::vector<std::uint32_t>& envs,
             const std::vector<py::bytes>& given) {
            std::vector<std::vector<std::uint8_t>> states;
            for (const std::string_view state : given) states.emplace_back(state.begin(), state.end());
            const GilReleased released;
            handle->Load(envs, std::move(states), Interrupted);
          },
          py::arg("envs"), py::arg("states"))
      .def(
          "render_size", [](PoolHandle& handle, std::uint32_t env) { return handle->RenderSize(env); },
          py::arg("env"))
      .def(
          "render",
          [](PoolHandle& handle, const std::vector<std::uint32_t>& envs,
             const std::vector<std::uintptr_t>& addresses, const py::object& owner) {
            std::vector<std::uint8_t*> pictures;
            for (const std::uintptr_t address : addresses) {
              pictures.push_back(reinterpret_cast<std::uint8_t*>(address));
            }
            auto shared = Share(owner);
            const GilReleased released;
            handle->Render(envs, std::move(pictures), std::move(shared), Interrupted);
          },
          py::arg("envs"), py::arg("addresses"), py::arg("owner"))
      .def(
          "exclusive_access",
          [](const py::object& pool, std::vector<std::uint32_t> envs) {
            return std::make_unique<ExclusiveAccess>(pool, std::move(envs));
          },
          py::arg("envs"))
      .def(
          "ended_workers", [](PoolHandle& handle) { return WorkersOf(handle).Ended(); },
          py::call_guard<GilReleased>())
      .def(
          "replace_worker",
          [](PoolHandle& handle, int worker, int process) { WorkersOf(handle).Replace(worker, process); },
          py::arg("worker"), py::arg("process"))
      .def("close", &PoolHandle::Close, py::call_guard<GilReleased>());
}

}  // namespace torchrl_pool::bindings
