// The pool. Tensors come as addresses: Python has allocated them and checked shapes, dtypes and devices.
#include <pybind11/stl.h>

#include "errors.h"
#include "module.h"
#include "pool.h"

namespace py = pybind11;

namespace torchrl_pool::bindings {
namespace {

using core::Batch;
using core::Config;
using core::Op;
using core::Pool;
using core::Ticket;

// Whether Python wants the wait to end: a signal handler raised. Its error stays set in this thread.
bool Interrupted() {
  py::gil_scoped_acquire gil;
  return PyErr_CheckSignals() != 0;
}

// Owns a Pool, except that a forked child must not touch the one it inherited.
class PoolHandle {
 public:
  PoolHandle(const std::vector<std::shared_ptr<Config>>& configs,
             const std::vector<std::int64_t>& max_episode_steps, int num_threads,
             std::vector<int> thread_affinity, std::vector<std::string> info_keys, bool one_hot,
             int float_dtype) {
    std::vector<core::EnvRequest> envs;
    for (std::size_t i = 0; i < configs.size(); ++i) envs.push_back({configs[i], max_episode_steps.at(i)});
    core::PoolOptions options;
    options.num_threads = num_threads;
    options.thread_affinity = std::move(thread_affinity);
    options.layout = {std::move(info_keys), one_hot, float_dtype};
    Guard([&] { pool_ = std::make_unique<Pool>(std::move(envs), options, Interrupted); });
  }

  ~PoolHandle() {
    if (pool_->forked()) {
      (void)pool_.release();
      return;
    }
    py::gil_scoped_release release;
    pool_.reset();
  }

  Pool& operator*() { return *pool_; }
  Pool* operator->() { return pool_.get(); }

  // Submit and wait, without the GIL. `owner` keeps the memory behind the ticket alive: the caller does so
  // while it waits, and the ticket itself after an interrupt.
  std::uint32_t Run(Ticket& ticket, std::uintptr_t mask, const py::object& owner) {
    std::uint32_t resets = 0;
    try {
      py::gil_scoped_release release;
      pool_->Submit(ticket, reinterpret_cast<const std::uint8_t*>(mask));
      resets = pool_->Wait(ticket, Interrupted);
    } catch (const core::Interrupted&) {
      ticket.keepalive = std::shared_ptr<void>(owner.inc_ref().ptr(), [](void* object) {
        py::gil_scoped_acquire gil;
        Py_DECREF(static_cast<PyObject*>(object));
      });
      throw py::error_already_set();
    }
    return resets;
  }

  Ticket& Begin(Op op) {
    Ticket* ticket = nullptr;
    Guard([&] { ticket = &pool_->Begin(op, Interrupted); });
    return *ticket;
  }

 private:
  template <class Function>
  static void Guard(Function&& function) {
    try {
      py::gil_scoped_release release;
      function();
    } catch (const core::Interrupted&) {
      throw py::error_already_set();
    }
  }

  std::unique_ptr<Pool> pool_;
};

// Addresses of a batch's columns, 0 where nobody wants one.
void Fill(Batch& batch, const py::tuple& addresses) {
  for (std::size_t i = 0; i < batch.base.size(); ++i) {
    batch.base[i] = reinterpret_cast<std::byte*>(PyLong_AsSize_t(PyTuple_GET_ITEM(addresses.ptr(), i)));
  }
}

void CheckCount(const char* what, const py::tuple& addresses, std::size_t expected) {
  if (addresses.size() != expected) {
    throw py::value_error(std::string(what) + ": expected " + std::to_string(expected) + " addresses, got " +
                          std::to_string(addresses.size()));
  }
}

using Entropy = std::vector<std::vector<std::uint32_t>>;

void Reset(PoolHandle& pool, const py::tuple& out, std::uintptr_t mask, Entropy entropy,
           const py::object& owner) {
  CheckCount("out", out, pool->layout().outputs.size());
  if (!entropy.empty() && entropy.size() != pool->num_envs()) {
    throw py::value_error("entropy: expected words for each env");
  }
  Ticket& ticket = pool.Begin(Op::kReset);
  Fill(ticket.out, out);
  ticket.entropy = std::move(entropy);
  pool.Run(ticket, mask, owner);
}

void Step(PoolHandle& pool, const py::tuple& actions, const py::tuple& out, std::uintptr_t mask,
          const py::object& owner) {
  CheckCount("actions", actions, pool->layout().actions.size());
  CheckCount("out", out, pool->layout().outputs.size());
  Ticket& ticket = pool.Begin(Op::kStep);
  Fill(ticket.actions, actions);
  Fill(ticket.out, out);
  pool.Run(ticket, mask, owner);
}

std::uint32_t StepAndReset(PoolHandle& pool, const py::tuple& actions, const py::tuple& out,
                           const py::tuple& root, const py::object& owner) {
  CheckCount("actions", actions, pool->layout().actions.size());
  CheckCount("out", out, pool->layout().outputs.size());
  CheckCount("root", root, pool->layout().outputs.size());
  Ticket& ticket = pool.Begin(Op::kStepAndReset);
  Fill(ticket.actions, actions);
  Fill(ticket.out, out);
  Fill(ticket.root, root);
  return pool.Run(ticket, 0, owner);
}

}  // namespace

void InitPool(py::module_& m) {
  py::class_<PoolHandle>(m, "Pool", "All envs of a batch and the threads that step them.")
      .def(py::init<const std::vector<std::shared_ptr<Config>>&, const std::vector<std::int64_t>&, int,
                    std::vector<int>, std::vector<std::string>, bool, int>(),
           py::kw_only(), py::arg("configs"), py::arg("max_episode_steps"), py::arg("num_threads"),
           py::arg("thread_affinity"), py::arg("info_keys"), py::arg("one_hot"), py::arg("float_dtype"))
      .def_property_readonly("num_threads", [](PoolHandle& pool) { return pool->num_threads(); })
      .def_property_readonly("outputs",
                             [](PoolHandle& pool) {
                               std::vector<core::Spec> specs;
                               for (const auto& column : pool->layout().outputs) specs.push_back(column.spec);
                               return specs;
                             })
      .def("reset", &Reset, py::arg("out"), py::arg("mask"), py::arg("entropy"), py::arg("owner"))
      .def("step", &Step, py::arg("actions"), py::arg("out"), py::arg("mask"), py::arg("owner"))
      .def("step_and_reset", &StepAndReset, py::arg("actions"), py::arg("out"), py::arg("root"),
           py::arg("owner"))
      .def(
          "save",
          [](PoolHandle& pool, std::uint32_t env_index) {
            const auto bytes = pool->Save(env_index);
            return py::bytes(reinterpret_cast<const char*>(bytes.data()), bytes.size());
          },
          py::arg("env_index"))
      .def(
          "load",
          [](PoolHandle& pool, std::uint32_t env_index, const py::bytes& state) {
            const std::string_view view = state;
            pool->Load(env_index, {view.begin(), view.end()});
          },
          py::arg("env_index"), py::arg("state"))
      .def(
          "render_size",
          [](PoolHandle& pool, std::uint32_t env_index) { return pool->RenderSize(env_index); },
          py::arg("env_index"))
      .def(
          "render",
          [](PoolHandle& pool, std::uint32_t env_index, std::uintptr_t rgb) {
            py::gil_scoped_release release;
            pool->Render(env_index, reinterpret_cast<std::uint8_t*>(rgb));
          },
          py::arg("env_index"), py::arg("rgb"))
      .def("close", [](PoolHandle& pool) {
        py::gil_scoped_release release;
        pool->Close();
      });
}

}  // namespace torchrl_pool::bindings
