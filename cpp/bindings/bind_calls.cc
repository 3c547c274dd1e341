// Calls of a pool, prepared once: from the entries of a tensordict to the tensors of the next ones.
#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
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
#include "received.h"
#include "rollout_rows.h"
#include "tensor_memory.h"

namespace py = pybind11;

namespace torchrl_pool::bindings {
namespace {

using core::Chain;
using core::Job;
using core::Op;

// Of each env of the pool.
using Flags = py::array_t<bool, py::array::c_style>;

// What the memory behind a call belongs to, until no thread can touch it.
struct Held {
  std::vector<py::object> objects;
  FreshTensors out, root;

  static void Delete(Held* held) {
    if (PyGILState_Check()) {
      delete held;
    } else if (const GilTaken gil; gil) {
      delete held;
    }
  }
};

// A call that has all that it needs, and what its results come of.
struct Prepared {
  Call call;
  std::shared_ptr<Held> held{new Held, Held::Delete};
  const TensorMemory *out = nullptr, *root = nullptr;  // null: none, or in memory of the caller

  py::object TakeOut() { return out ? out->Take(held->out) : py::none(); }
  py::object TakeRoot() { return root ? root->Take(held->root) : py::none(); }

  // What the call gives: its results, the root that follows where episodes have begun, and how many have.
  py::tuple Results(std::uint32_t resets) {
    return py::make_tuple(TakeOut(), call.into || resets > 0 ? TakeRoot() : py::none(), resets);
  }

  // Raises Python's EnvFailure. Threads that hang may still write to the results: the job keeps these.
  [[noreturn]] void Fail(const core::EnvFailure& failure) {
    const py::object written = TakeOut();
    held->objects.push_back(written);
    SetError(failure, written);
    throw py::error_already_set();
  }
};

// A step of some envs, to be waited for once. If it goes out of scope before, its job is abandoned. Made
// before the submission, so that no interrupt comes between the two.
class Flight {
 public:
  explicit Flight(py::object pool) : owner_(std::move(pool)), pool_(owner_.cast<PoolHandle&>()) {}
  ~Flight() {
    if (!job_) return;
    const GilReleased released;
    pool_.Abandon(*job_);
  }
  Flight(const Flight&) = delete;
  Flight& operator=(const Flight&) = delete;

  bool in_flight() const { return job_ != nullptr; }

  void Submit(Prepared prepared, py::object calls) {
    if (job_) throw core::PoolError("this step is in flight: wait for it first");
    if (!prepared.call.into) throw py::type_error("out: expected rows of a batch");
    prepared.call.Check(pool_->layout(), pool_->num_envs());
    prepared_.emplace(std::move(prepared));
    calls_ = std::move(calls);
    const GilReleased released;
    Job& job = Begin(*pool_.operator->(), prepared_->call, prepared_->held, [&](Job& begun) {
      const RolloutRows& rows = prepared_->call.into->rows;
      pool_->Select(begun, core::EnvRange{rows.first, rows.count});
    });
    pool_->Submit(job, core::Delivery::kLater, Interrupted);
    job_ = &job;
  }

  py::tuple Wait() {
    if (!job_) throw core::PoolError("this step is not in flight");
    Job& job = *std::exchange(job_, nullptr);
    std::uint32_t resets = 0;
    try {
      const GilReleased released;
      resets = pool_->Wait(job, Interrupted);
    } catch (const core::Interrupted&) {
      job_ = &job;  // it is still in flight
      throw;
    } catch (const core::PoolError&) {
      job_ = &job;
      throw;
    }
    py::tuple results = prepared_->Results(resets);
    prepared_.reset();
    return results;
  }

 private:
  const py::object owner_;
  PoolHandle& pool_;
  py::object calls_;  // which the prepared call is of
  std::optional<Prepared> prepared_;
  Job* job_ = nullptr;
};

// Where the inputs of calls are found, and what their results are like.
class Calls {
 public:
  // `inputs`: a PlainTensors. `out`, `root`, `numbers`: the TensorMemory of a step, of a root, and of the
  // numbers of envs that are received. Each may be None where the caller always brings its own. `keep`: what
  // the stages of the chain write to.
  Calls(py::object inputs, py::object out, py::object root, py::object numbers, py::object chain,
        py::object keep)
      : inputs_(To<PlainTensors>(inputs)),
        out_(To<TensorMemory>(out)),
        root_(To<TensorMemory>(root)),
        numbers_(To<TensorMemory>(numbers)),
        chain_(To<Chain>(chain)),
        keep_(std::move(keep)),
        owners_{std::move(inputs), std::move(out), std::move(root), std::move(numbers), std::move(chain)} {}

  // Begins episodes in all envs, or in those of the mask; what their roots are, by key. `out`: of all envs.
  py::object Reset(PoolHandle& pool, const py::object& out, const py::object& mask,
                   ResetArguments given) const {
    Prepared prepared = New(Op::kReset);
    prepared.call.given = std::move(given);
    WriteOut(prepared, root_, out);
    Finish(pool, prepared, mask);
    return prepared.TakeOut();
  }

  // As Prepared::Results. None: an input is not just as the executor reads it, and nothing has happened.
  py::object Step(PoolHandle& pool, const py::object& inputs, const py::object& out, const py::object& mask,
                  const std::optional<Flags>& begins) const {
    std::optional<Prepared> prepared = Prepare(Op::kStep, inputs);
    if (!prepared) return py::none();
    if (begins) {
      prepared->call.begins = {reinterpret_cast<const std::uint8_t*>(begins->data()),
                               static_cast<std::size_t>(begins->size())};
    }
    WriteOut(*prepared, out_, out);
    return prepared->Results(Finish(pool, *prepared, mask));
  }

  py::object StepAndReset(PoolHandle& pool, const py::object& inputs, const py::object& out,
                          const py::object& root) const {
    std::optional<Prepared> prepared = Prepare(Op::kStepAndReset, inputs);
    if (!prepared) return py::none();
    WriteOut(*prepared, out_, out);
    WriteRoot(*prepared, root);
    return prepared->Results(Finish(pool, *prepared, py::none()));
  }

  // So many steps of each env with actions that are known, each of whose results goes to `out`.
  py::object Steps(PoolHandle& pool, const py::object& inputs, const py::object& out,
                   std::uint32_t num_steps) const {
    if (num_steps < 1 || std::uint64_t{pool->num_envs()} * num_steps > core::kMaxEnvs) {
      throw py::value_error("num_steps: a call makes from 1 to " +
                            std::to_string(core::kMaxEnvs / pool->num_envs()) + " steps of each env, got " +
                            std::to_string(num_steps));
    }
    if (pool->workers()) {
      throw core::PoolError("expected a pool whose envs are in threads, got one with workers");
    }
    std::optional<Prepared> prepared = Prepare(Op::kSteps, inputs);
    if (!prepared) return py::none();
    prepared->call.num_steps = num_steps;
    WriteOut(*prepared, out_, out);
    return prepared->Results(Finish(pool, *prepared, py::none()));
  }

  // A step with auto-reset into a rollout's batch. `recorded`: what is recorded of the root, as inputs are.
  py::object Record(PoolHandle& pool, const py::object& inputs, const py::object& rows, std::size_t step,
                    const py::object& recorded) const {
    std::optional<Prepared> prepared = PrepareInto(inputs, rows, step, recorded);
    if (!prepared) return py::none();
    return prepared->Results(Finish(pool, *prepared, py::none()));
  }

  // The same for some envs, to be waited for later. False: an input is not as the executor reads it.
  bool Submit(const py::object& self, Flight& flight, const py::object& inputs, const py::object& rows,
              std::size_t step, const py::object& recorded) const {
    std::optional<Prepared> prepared = PrepareInto(inputs, rows, step, recorded);
    if (prepared) flight.Submit(std::move(*prepared), self);
    return prepared.has_value();
  }

  // Has these envs work, for whoever receives them: row i of the inputs is the i-th one's, and the receiver
  // gets `cargo` back with the number i. False: an input is not as the executor reads it.
  bool Send(PoolHandle& pool, Op op, const py::object& inputs, const std::vector<std::uint32_t>& envs,
            bool is_single, const py::object& cargo, std::optional<ResetArguments> given) const {
    Call call{op};
    call.is_sent = true;
    call.given = std::move(given);
    std::vector<py::object> objects;
    if (!FindInputs(call, inputs, static_cast<std::int64_t>(envs.size()), objects)) return false;
    call.Check(pool->layout(), pool->num_envs());
    MakeRoomForResults(pool);
    auto shared = Share(cargo);
    const GilReleased released;
    Job& job = Begin(*pool.operator->(), call, nullptr, [&](Job& begun) {
      pool->Select(begun, std::span<const std::uint32_t>(envs));
      begun.is_single = is_single;
      begun.cargo = std::move(shared);
    });
    pool->Submit(job, core::Delivery::kOneByOne, Interrupted);
    return true;
  }

  // What envs that are ready have written, the root that follows where some have begun episodes, and their
  // numbers. None: too few within the timeout.
  py::object Receive(Received& received, Op op, std::size_t least, std::size_t most,
                     const std::optional<double>& timeout, std::optional<std::uint32_t> env) const {
    if (!received.Receive(op, least, most, timeout, env)) return py::none();
    const auto count = static_cast<std::int64_t>(received.envs().size());
    const TensorMemory& memory = Known(op == Op::kReset ? root_ : out_);
    FreshTensors out = memory.Begin(count), numbers = Known(numbers_).Begin(count), root;
    if (received.has_resets()) root = Known(root_).Begin(count);
    received.CopyRows(out.addresses, root.addresses, numbers.addresses.at(0));
    py::object following = root.addresses.empty() ? py::none() : root_->Take(root);
    return py::make_tuple(memory.Take(out), std::move(following), numbers_->Take(numbers));
  }

 private:
  template <class T>
  static const T* To(const py::object& object) {
    return object.is_none() ? nullptr : &object.cast<const T&>();
  }

  // How many envs have begun episodes.
  static std::uint32_t Finish(PoolHandle& pool, Prepared& prepared, const py::object& mask) {
    const std::uint8_t* rows = nullptr;
    if (!mask.is_none()) {
      const auto [owner, address] = mask.cast<std::pair<py::object, std::uintptr_t>>();
      prepared.held->objects.push_back(owner);
      rows = reinterpret_cast<const std::uint8_t*>(address);
    }
    prepared.call.Check(pool->layout(), pool->num_envs());
    try {
      const GilReleased released;
      Job& job = Begin(*pool.operator->(), prepared.call, prepared.held, [&](Job& begun) {
        if (rows) pool->Select(begun, rows);
      });
      pool->Submit(job, core::Delivery::kAwaited, Interrupted);
      // Where other threads do the work, Python's objects for its results are made meanwhile.
      return pool->Wait(job, Interrupted, [&prepared] {
        const GilTaken gil;
        if (!gil) throw core::Interrupted();
        prepared.TakeOut();
      });
    } catch (const core::EnvFailure& failure) {
      prepared.Fail(failure);
    }
  }

  Prepared New(Op op) const {
    Prepared prepared;
    prepared.call.op = op;
    prepared.call.chain = chain_;
    if (!keep_.is_none()) prepared.held->objects.push_back(keep_);
    return prepared;
  }

  // `inputs`: entries to look in; or tensors and their addresses; or a list of NumPy's arrays.
  std::optional<Prepared> Prepare(Op op, const py::object& inputs,
                                  std::optional<std::int64_t> num_rows = std::nullopt) const {
    std::optional<Prepared> prepared(New(op));
    if (!FindInputs(prepared->call, inputs, num_rows, prepared->held->objects)) return std::nullopt;
    return prepared;
  }

  std::optional<Prepared> PrepareInto(const py::object& inputs, const py::object& place, std::size_t step,
                                      const py::object& recorded) const {
    const auto& rows = place.cast<const RolloutRows&>();
    std::optional<Prepared> prepared = Prepare(Op::kStepAndReset, inputs, rows.count);
    if (!prepared) return std::nullopt;
    std::vector<py::object>& objects = prepared->held->objects;
    objects.insert(objects.end(), {place, rows.owner});
    std::vector<core::Rows> sources;
    if (PyDict_Check(recorded.ptr())) {
      if (!rows.plain_recorded->FindIn(recorded, rows.count, true, sources, objects)) return std::nullopt;
    } else {
      const Addresses addresses = Given(recorded, objects);
      for (std::size_t i = 0; i < addresses.size(); ++i) {
        sources.push_back({addresses[i], rows.recorded_bytes.at(i)});
      }
    }
    prepared->call.into.emplace(RolloutStep{rows, step, std::move(sources)});
    // What a step writes into a batch goes to the root that follows as well.
    WriteRoot(*prepared, py::none(), rows.count, rows.first);
    return prepared;
  }

  // False: an input is not just as the executor reads it. `objects` get what holds them.
  bool FindInputs(Call& call, const py::object& inputs, std::optional<std::int64_t> num_rows,
                  std::vector<py::object>& objects) const {
    if (PyDict_Check(inputs.ptr())) {
      if (!inputs_) throw py::type_error("expected tensors and their addresses");
      std::vector<core::Rows> found;
      if (!inputs_->FindIn(inputs, num_rows, false, found, objects)) return false;
      for (const core::Rows& one : found) call.inputs.push_back(one.base);
    } else if (!inputs.is_none()) {
      call.inputs = Given(inputs, objects);
    }
    return true;
  }

  // Where threads write what was sent for, until it is received: rows of all envs.
  void MakeRoomForResults(PoolHandle& pool) const {
    if (pool.is_prepared()) return;
    std::shared_ptr<Held> memory(new Held, Held::Delete);
    memory->out = Known(out_).Begin();
    memory->root = Known(root_).Begin();
    bool is_first = false;
    {
      const GilReleased released;  // whoever holds the pool may wait for it
      is_first =
          pool->PrepareAsync(ToBatch(memory->out, pool->layout()), ToBatch(memory->root, pool->layout()));
    }
    if (is_first) pool.Own(std::move(memory));
  }

  static core::Batch ToBatch(const FreshTensors& fresh, const core::Layout& layout) {
    core::Batch batch;
    for (const auto& column : layout.outputs) batch.AddColumn(column.row_bytes);
    batch.SetBases(fresh.addresses);
    return batch;
  }

  static const TensorMemory& Known(const TensorMemory* memory) {
    if (!memory) throw py::type_error("expected tensors for the results");
    return *memory;
  }

  // Tensors and their addresses, or a list of NumPy's arrays.
  static Addresses Given(const py::object& given, std::vector<py::object>& objects) {
    objects.push_back(given);
    if (PyList_Check(given.ptr())) return OfArrays(given.cast<py::list>());
    return FromList(given.cast<py::tuple>()[1].cast<py::list>());
  }

  // `given`: where results go, as above; None: to fresh tensors.
  static void WriteOut(Prepared& prepared, const TensorMemory* memory, const py::object& given) {
    prepared.out = memory;
    prepared.call.out = Results(memory, given, prepared.held->out, prepared.held->objects);
  }

  void WriteRoot(Prepared& prepared, const py::object& given,
                 std::optional<std::int64_t> num_rows = std::nullopt, std::size_t first = 0) const {
    prepared.root = root_;
    prepared.call.root = Results(root_, given, prepared.held->root, prepared.held->objects, num_rows, first);
  }

  static Addresses Results(const TensorMemory* memory, const py::object& given, FreshTensors& fresh,
                           std::vector<py::object>& objects,
                           std::optional<std::int64_t> num_rows = std::nullopt, std::size_t first = 0) {
    if (given.is_none()) {
      fresh = Known(memory).Begin(num_rows, first);
      return fresh.addresses;
    }
    if (PyTuple_Check(given.ptr())) fresh.tensors = given.cast<py::tuple>()[0];
    return Given(given, objects);
  }

  const PlainTensors* const inputs_;
  const TensorMemory *const out_, *const root_, *const numbers_;
  const Chain* const chain_;
  const py::object keep_;
  const std::vector<py::object> owners_;
};

std::unique_ptr<RolloutRows> MakeRolloutRows(std::uint32_t first, std::uint32_t count,
                                             std::vector<RolloutRows::Column> outputs,
                                             std::vector<RolloutRows::Column> recorded,
                                             std::vector<std::size_t> recorded_bytes,
                                             py::object plain_recorded, py::object owner) {
  if (recorded.size() != recorded_bytes.size()) throw py::value_error("expected a size for each column");
  const auto& plain = plain_recorded.cast<const PlainTensors&>();
  auto rows = std::make_unique<RolloutRows>(RolloutRows{first,
                                                        count,
                                                        std::move(outputs),
                                                        std::move(recorded),
                                                        std::move(recorded_bytes),
                                                        {},
                                                        &plain,
                                                        std::move(plain_recorded),
                                                        std::move(owner)});
  for (const auto& column : rows->outputs) rows->output_strides.push_back(std::get<1>(column));
  return rows;
}

}  // namespace

void InitCalls(py::module_& m) {
  py::class_<RolloutRows>(m, "RolloutRows", "Where a rollout's batch has the rows of consecutive envs.")
      .def("__init__", Constructor(&MakeRolloutRows), kConstructs, py::kw_only(), py::arg("first"),
           py::arg("count"), py::arg("outputs"), py::arg("recorded"), py::arg("recorded_bytes"),
           py::arg("plain_recorded"), py::arg("owner"));
  py::class_<Flight>(m, "Flight", "A step of some envs, from its submission to the end of the wait for it.")
      .def("__init__", Constructor<Flight, py::object>(), kConstructs, py::arg("pool"))
      .def_property_readonly("in_flight", &Flight::in_flight)
      .def("wait", &Flight::Wait);
  py::class_<Received>(m, "Received", "Results of envs that were sent, until they are accepted.")
      .def("__init__", Constructor<Received, py::object>(), kConstructs, py::arg("pool"))
      .def_property_readonly("cargo", &Received::cargo)
      .def("accept", &Received::Accept)
      .def("put_back", &Received::PutBack);
  py::class_<Calls>(m, "Calls", "Where the inputs of calls are found, and what their results are like.")
      .def("__init__",
           Constructor<Calls, py::object, py::object, py::object, py::object, py::object, py::object>(),
           kConstructs, py::kw_only(), py::arg("inputs") = py::none(), py::arg("out") = py::none(),
           py::arg("root") = py::none(), py::arg("numbers") = py::none(), py::arg("chain") = py::none(),
           py::arg("keep") = py::none())
      .def("reset", &Calls::Reset, py::arg("pool"), py::arg("out"), py::arg("mask"), py::arg("given"),
           "Begins episodes; the roots by key.")
      .def("step", &Calls::Step, py::arg("pool"), py::arg("inputs"), py::arg("out") = py::none(),
           py::arg("mask") = py::none(), py::arg("begins") = py::none(),
           "The results by key, the root that follows where episodes have begun, and how many have. None: an "
           "input is not just as the executor reads it.")
      .def("step_and_reset", &Calls::StepAndReset, py::arg("pool"), py::arg("inputs"),
           py::arg("out") = py::none(), py::arg("root") = py::none(), "As step, with auto-reset.")
      .def("steps", &Calls::Steps, py::arg("pool"), py::arg("inputs"), py::arg("out"), py::arg("num_steps"),
           "As step, several times.")
      .def("record", &Calls::Record, py::arg("pool"), py::arg("inputs"), py::arg("rows"), py::arg("step"),
           py::arg("recorded"), "As step_and_reset, into a rollout's batch.")
      .def(
          "submit",
          [](const py::object& self, Flight& flight, const py::object& inputs, const py::object& rows,
             std::size_t step, const py::object& recorded) {
            return self.cast<const Calls&>().Submit(self, flight, inputs, rows, step, recorded);
          },
          py::arg("flight"), py::arg("inputs"), py::arg("rows"), py::arg("step"), py::arg("recorded"),
          "As record, to be waited for once. False: as None.")
      .def("send", &Calls::Send, py::arg("pool"), py::arg("op"), py::arg("inputs"), py::arg("envs"),
           py::arg("is_single"), py::arg("cargo"), py::arg("given") = py::none(),
           "Has envs work, for whoever receives them. False: as None.")
      .def(
          "receive", &Calls::Receive, py::arg("received"), py::arg("op"), py::arg("least"), py::arg("most"),
          py::arg("timeout"), py::arg("env"),
          "Results by key, the root that follows where episodes have begun, and the envs' numbers. None: too "
          "few within the timeout.");
}

}  // namespace torchrl_pool::bindings
