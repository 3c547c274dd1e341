// Both ends of what a pool shares with its worker processes. A worker loads this without torch.
#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "constructor.h"
#include "dtype.h"
#include "errors.h"
#include "field.h"
#include "gil.h"
#include "module.h"
#include "workers/arena.h"
#include "workers/remote_task.h"
#include "workers/worker_port.h"

namespace py = pybind11;

namespace torchrl_pool::bindings {
namespace {

using core::Arena;
using core::EnvCell;
using core::Spec;

constexpr auto kSignalPeriod = std::chrono::milliseconds(500);

// A method of the object, to be called with the GIL. An error of Python's becomes what `translate` throws.
template <class Translate>
auto Method(const py::object& object, const char* name, const Translate& translate) {
  return [method = Share(object.attr(name)), translate](auto... arguments) {
    try {
      return py::handle(static_cast<PyObject*>(method.get()))(arguments...);
    } catch (py::error_already_set& error) {
      translate(error);
      throw;
    }
  };
}

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// A number, in whatever type, that an env gave as its reward: an array of one element as that element.
py::object NumberOf(py::handle value) {
  const bool is_array =
      py::isinstance<py::array>(value) && py::reinterpret_borrow<py::array>(value).size() == 1;
  return is_array ? value.attr("item")() : py::reinterpret_borrow<py::object>(value);
}

// As NumPy writes it into an array of doubles; NaN where it is no number.
double ToDouble(py::handle value) {
  const double number = PyFloat_AsDouble(value.ptr());
  if (number != -1.0 || !PyErr_Occurred()) return number;
  PyErr_Clear();
  return kNan;
}

// As an env says it.
bool ToFlag(py::handle value) {
  const int truth = PyObject_IsTrue(value.ptr());
  if (truth < 0) throw py::error_already_set();
  return truth != 0;
}

// The exception that is being handled, as Python's, with its traceback.
py::object ErrorAtHand() {
  try {
    throw;
  } catch (const py::error_already_set& error) {
    if (error.trace()) PyException_SetTraceback(error.value().ptr(), error.trace().ptr());
    return error.value();
  } catch (const py::builtin_exception& error) {
    error.set_error();
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
  }
  return py::error_already_set().value();
}

// What Python has returned, in whatever iterable.
class Items {
 public:
  explicit Items(py::handle iterable)
      : held_(py::reinterpret_steal<py::object>(PySequence_Tuple(iterable.ptr()))) {
    if (!held_) throw py::error_already_set();
  }
  // So many, and no endless iterator.
  Items(py::handle iterable, std::size_t count, const char* what)
      : Items(PySequence_Check(iterable.ptr())
                  ? py::reinterpret_borrow<py::object>(iterable)
                  : py::module_::import("itertools").attr("islice")(iterable, count + 1)) {
    if (all().size() != count) {
      throw py::value_error("expected " + std::to_string(count) + " " + what + ", got " +
                            (all().size() > count ? "more" : std::to_string(all().size())));
    }
  }

  std::span<PyObject* const> all() const {
    return {PySequence_Fast_ITEMS(held_.ptr()), static_cast<std::size_t>(PyTuple_GET_SIZE(held_.ptr()))};
  }
  py::handle operator[](std::size_t i) const { return all()[i]; }

 private:
  py::object held_;  // a tuple
};

constexpr std::size_t kNoField = static_cast<std::size_t>(-1);

// What serving takes of the worker in Python.
struct Parts {
  py::dict adapters;  // of each env that is there
  py::set unset;      // of them, those that are to be reset first
  py::list actions;   // rows of all the pool's envs, of each entry
  py::function fail;  // takes an env that failed, and the exception; returns what is to be raised, or None
  py::function work;  // does a request: op, first env, number of envs, whether only a seed is meant
};

// A worker's end for Python: what an env returns goes to its rows.
class Port {
 public:
  Port(std::shared_ptr<Arena> arena, int worker, const std::vector<Spec>& outputs, bool flags_lost)
      : port_(std::move(arena), worker) {
    for (const Spec& spec : outputs) {
      const core::Dtype& dtype = core::kDtypes[spec.dtype];
      fields_.push_back({spec.name,
                         spec.role == TRP_REWARD,
                         dtype.kind,
                         dtype.bytes,
                         spec.size(),
                         spec.row_bytes(),
                         {spec.shape.begin(), spec.shape.end()},
                         dtype.name,
                         py::dtype(dtype.name)});
      if (spec.IsFlagOfAgents("truncated") || spec.IsFlagOfAgents("done")) {
        set_when_lost_.push_back(fields_.size() - 1);
      }
    }
    flag_ = flags_lost ? fields_.size() - 1 : kNoField;
    if (flags_lost) set_when_lost_.push_back(flag_);
    for (std::size_t i = 0; i < fields_.size(); ++i) {
      if (i != flag_) (fields_[i].is_reward ? rewards_ : leaves_).push_back(i);
    }
  }

  // Does what is asked for, until there is nothing more or, if it `waits`, something in the channel.
  void Serve(const Parts& parts, bool waits) {
    if (is_at_work_) {
      throw core::PoolError("an env cannot reset or step envs of its own process while it is in a call");
    }
    const AtWork at_work(is_at_work_);
    const auto start = std::chrono::steady_clock::now();
    while (true) {
      while (DoNext(parts)) {
      }
      // Now and then in any case: an env may have overwritten that there is a message.
      if (!waits || port_.TakeMessage() || std::chrono::steady_clock::now() - start > kSignalPeriod) return;
      {
        const GilReleased released;
        port_.Wait(kSignalPeriod);
      }
      if (PyErr_CheckSignals() != 0) throw py::error_already_set();
    }
  }

  // In a child that an env has forked: all this is its parent's. What it returns from the env's call ends it.
  void Disown() { is_owner_ = false; }

  py::object SeedOf(std::uint32_t env) const {
    const auto words = port_.SeedOf(env);
    if (words.empty()) return py::none();
    py::object seed = py::int_(0);
    for (std::size_t i = words.size(); i-- > 0;) seed = (seed << py::int_(32)) | py::int_(words[i]);
    return seed;
  }

  std::uint64_t NoteOf(std::uint32_t env) const { return port_.NoteOf(env); }

  // Whether the pool's limit ends the episode with this step.
  bool IsLast(std::uint32_t env) const { return port_.arena().cell(env).is_last != 0; }

  // What an adapter's step has returned: leaves, reward, terminated, truncated. Whether the env shall be
  // reset before this is over.
  bool WasStepped(std::uint32_t env, py::handle returned, bool may_reset) {
    const Items results(returned, 4, "results of a step");
    const Items leaves(results[0]);
    const bool is_number = rewards_.size() == 1 && fields_[rewards_[0]].size == 1;
    const py::object reward =
        is_number ? NumberOf(results[1]) : py::reinterpret_borrow<py::object>(results[1]);
    const bool terminated = ToFlag(results[2]);
    bool truncated = ToFlag(results[3]);
    CheckOwner();
    WriteLeaves(leaves.all(), [&](std::size_t i) { return port_.arena().OutputRow(i, env); });
    if (rewards_.size() == 1) {
      Write(fields_[rewards_[0]], port_.arena().OutputRow(rewards_[0], env), reward);
    } else {
      for (std::size_t i = 0; i < rewards_.size(); ++i) {
        Write(fields_[rewards_[i]], port_.arena().OutputRow(rewards_[i], env), reward[py::int_(i)]);
      }
    }
    truncated |= IsLast(env);
    port_.Stepped(env, is_number ? ToDouble(reward) : kNan, terminated, truncated);
    const bool is_reset = may_reset && (terminated || truncated);
    if (!is_reset) Finish();
    return is_reset;
  }

  // What an adapter's reset has returned: leaves, terminated, truncated.
  void WasReset(std::uint32_t env, py::handle returned) {
    const Items results(returned, 3, "results of a reset");
    const Items leaves(results[0]);
    const bool terminated = ToFlag(results[1]), truncated = ToFlag(results[2]);
    CheckOwner();
    WriteLeaves(leaves.all(), [&](std::size_t i) { return port_.arena().RootRow(i, env); });
    port_.WasReset(env, terminated, truncated);
    Finish();
  }

  // Made, or seeded: there is nothing to write.
  void WasMade(std::uint32_t env) {
    CheckOwner();
    port_.WasReset(env, false, false);
    Finish();
  }

  // The env at hand is not the one that was to be stepped, which was lost with its process.
  bool Lost(std::uint32_t env, bool may_reset) {
    const auto fill = [&](std::size_t i, int byte) {
      std::memset(port_.arena().OutputRow(i, env), byte, fields_[i].bytes);
    };
    for (std::size_t i = 0; i < fields_.size(); ++i) fill(i, 0);
    for (const std::size_t i : set_when_lost_) fill(i, 1);
    port_.Stepped(env, 0.0, false, true);
    if (!may_reset) Finish();
    return may_reset;
  }

  // Nothing, if an interrupt comes when the request is over for the env already.
  void Failed(std::uint32_t env, std::string_view message) {
    if (env != at_hand_) return;
    port_.Failed(env, message);
    Finish();
  }

 private:
  // False: there is nothing to do.
  bool DoNext(const Parts& parts) {
    // What an interrupt has cut short between two envs, in code of ours, has failed.
    while (at_hand_ < end_) Failed(at_hand_, "KeyboardInterrupt: it was interrupted");
    const auto request = port_.Next();
    if (!request) return false;
    at_hand_ = port_.first_env() + request->first;
    end_ = at_hand_ + request->count;
    const auto start = std::chrono::steady_clock::now();
    if (!Play(parts, *request)) {
      parts.work(static_cast<int>(request->op), at_hand_, request->count, request->seed_only);
    }
    if (core::IsStep(request->op)) port_.CountSteps(request->count, std::chrono::steady_clock::now() - start);
    return true;
  }

  // Steps or resets the envs at hand. False, with nothing done: one of them is not there, or not set, or
  // there is more to do.
  bool Play(const Parts& parts, const core::Request& request) {
    if (request.op == core::Op::kCreate || request.seed_only || py::len(parts.unset) > 0) return false;
    const bool is_reset = request.op == core::Op::kReset, may_reset = request.op == core::Op::kStepAndReset;
    std::vector<py::object> adapters;
    for (std::uint32_t env = at_hand_; env != end_; ++env) {
      PyObject* adapter = PyDict_GetItemWithError(parts.adapters.ptr(), py::int_(env).ptr());
      if (!adapter && PyErr_Occurred()) throw py::error_already_set();
      if (!adapter || (is_reset && NoteOf(env) != 0)) return false;
      adapters.push_back(py::reinterpret_borrow<py::object>(adapter));
    }
    // The actions, and which of them is the first env's. An env may keep what it is given: of arrays a copy.
    std::vector<std::pair<py::object, std::uint32_t>> blocks;
    for (const py::handle actions : parts.actions) {
      if (is_reset) break;
      if (py::reinterpret_borrow<py::array>(actions).ndim() == 1) {  // it is given numbers
        blocks.emplace_back(py::reinterpret_borrow<py::object>(actions), at_hand_);
      } else {
        blocks.emplace_back(py::getattr(actions[py::slice(at_hand_, end_, 1)], copy_)(), 0);
      }
    }
    py::object ended = py::none();
    const std::uint32_t first = at_hand_;
    for (std::uint32_t i = 0; i < adapters.size() && ended.is_none(); ++i) {  // an interrupt ends all of it
      try {
        if (is_reset) {
          WasReset(first + i, py::getattr(adapters[i], reset_)(SeedOf(first + i), py::none()));
          continue;
        }
        py::tuple actions(blocks.size());
        for (std::size_t j = 0; j < blocks.size(); ++j) {
          const auto& [of_envs, begin] = blocks[j];
          actions[j] = of_envs[py::int_(begin + i)];
        }
        if (WasStepped(first + i, py::getattr(adapters[i], step_)(std::move(actions), IsLast(first + i)),
                       may_reset)) {
          WasReset(first + i, py::getattr(adapters[i], reset_)(py::none(), py::none()));
        }
      } catch (...) {
        py::object end = parts.fail(first + i, ErrorAtHand());
        if (!end.is_none()) ended = std::move(end);
      }
    }
    if (!ended.is_none()) {
      PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(ended.ptr())), ended.ptr());
      throw py::error_already_set();
    }
    return true;
  }

  void CheckOwner() const {
    if (is_owner_) return;
    PyErr_SetNone(PyExc_SystemExit);
    throw py::error_already_set();
  }

  void Finish() {
    ++at_hand_;
    port_.Finish();
  }

  template <class RowOf>
  void WriteLeaves(std::span<PyObject* const> leaves, const RowOf& row_of) {
    if (leaves.size() != leaves_.size()) {
      throw py::value_error("expected " + std::to_string(leaves_.size()) + " entries from the env, got " +
                            std::to_string(leaves.size()));
    }
    for (std::size_t i = 0; i < leaves_.size(); ++i) {
      Write(fields_[leaves_[i]], row_of(leaves_[i]), leaves[i]);
    }
    if (flag_ != kNoField) *row_of(flag_) = std::byte{0};
  }

  // While it lives, the flag is set.
  class AtWork {
   public:
    explicit AtWork(bool& flag) : flag_(flag) { flag_ = true; }
    ~AtWork() { flag_ = false; }
    AtWork(const AtWork&) = delete;

   private:
    bool& flag_;
  };

  const py::str copy_{"copy"}, reset_{"reset"}, step_{"step"};
  core::WorkerPort port_;
  bool is_at_work_ = false, is_owner_ = true;
  std::uint32_t at_hand_ = 0, end_ = 0;  // the envs for which the request is not over
  std::vector<Field> fields_;
  std::vector<std::size_t> leaves_, rewards_;  // which fields they are
  std::size_t flag_;                           // the field that tells what was lost, which is the last one
  std::vector<std::size_t> set_when_lost_;     // that one, and flags with which episodes of agents end
};

// The number of a name among these, whatever each of them is of.
template <class Enum, class Names, class NameOf>
Enum ToEnum(const Names& names, const py::handle& name, NameOf name_of) {
  const auto* found = std::ranges::find(names, name.cast<std::string>(), name_of);
  if (found == std::end(names)) throw py::value_error("unknown: " + name.cast<std::string>());
  return static_cast<Enum>(found - std::begin(names));
}

// torchrl_pool._workers.Entry objects.
std::vector<Spec> ToSpecs(const py::list& entries) {
  std::vector<Spec> specs;
  for (const py::handle entry : entries) {
    specs.push_back(
        {entry.attr("name").cast<std::string>(), "",
         ToEnum<trp_role>(kRoleNames, entry.attr("role"), std::identity()),
         ToEnum<trp_dtype>(core::kDtypes, entry.attr("dtype"), &core::Dtype::name),
         entry.attr("shape").cast<std::vector<std::int64_t>>(), entry.attr("low").cast<std::vector<double>>(),
         entry.attr("high").cast<std::vector<double>>(),
         entry.attr("categories").cast<std::vector<std::int64_t>>(), entry.attr("one_hot").cast<bool>()});
  }
  return specs;
}

std::vector<Spec> OutputsOf(std::vector<Spec> specs) {
  std::erase_if(specs, [](const Spec& spec) { return spec.role == TRP_ACTION; });
  return specs;
}

}  // namespace

core::WorkerOptions ToWorkerOptions(const py::object& workers) {
  const auto interrupt = [](py::error_already_set& error) {
    error.restore();  // it stays set in this thread
    throw core::Interrupted();
  };
  const auto state = [interrupt](py::error_already_set& error) {
    trp_status status = TRP_RUNTIME_ERROR;
    if (error.matches(PyExc_NotImplementedError)) {
      status = TRP_UNSUPPORTED;
    } else if (error.matches(PyExc_ValueError)) {
      status = TRP_INVALID_ARGUMENT;
    } else if (!error.matches(PyExc_RuntimeError)) {
      interrupt(error);  // Ctrl-C, say
    }
    throw core::StatusError(status, error.value().attr("__str__")().cast<std::string>());
  };
  const auto unknown = [interrupt](py::error_already_set& error) {
    if (!error.matches(PyExc_Exception)) interrupt(error);
    throw core::StatusError(TRP_RUNTIME_ERROR, error.value().attr("__str__")().cast<std::string>());
  };
  core::WorkerOptions options;
  options.arena = workers.attr("arena").cast<std::shared_ptr<Arena>>();
  options.processes = workers.attr("processes").cast<std::vector<int>>();
  if (workers.attr("has_local").cast<bool>()) {
    options.serve = [serve = Method(workers, "serve", interrupt)] {
      const GilTaken gil;
      if (!gil) throw core::Interrupted();
      std::optional<py::error_scope> earlier;  // one is on its way, while the visit comes to its end
      if (PyErr_Occurred()) earlier.emplace();
      try {
        serve();
      } catch (const core::Interrupted&) {
        if (earlier) PyErr_Clear();
        throw;
      }
    };
  }
  options.how_it_ended = [tell = Method(workers, "how_it_ended", unknown)](int worker) -> std::string {
    const GilTaken gil;
    if (!gil) return "has ended";
    try {
      return tell(worker).template cast<std::string>();
    } catch (const core::StatusError&) {
      return "has ended";
    }
  };
  if (workers.attr("respawns").cast<bool>()) {
    options.respawn = [respawn = Method(workers, "respawn", unknown)](int worker) {
      const GilTaken gil;
      if (!gil) throw core::StatusError(TRP_RUNTIME_ERROR, "Python has ended.");
      return respawn(worker).template cast<int>();
    };
  }
  options.save = [save = Method(workers, "save", state)](std::uint32_t env) {
    const GilTaken gil;
    if (!gil) throw core::Interrupted();
    return save(env).template cast<std::string>();
  };
  options.advise = [advise = Method(workers, "advise", unknown)] {
    if (const GilTaken gil; gil) advise();
  };
  options.load = [load = Method(workers, "load", state)](std::uint32_t env, std::string_view bytes) {
    const GilTaken gil;
    if (!gil) throw core::Interrupted();
    load(env, py::bytes(bytes.data(), bytes.size()));
  };
  return options;
}

void InitWorkers(py::module_& m) {
  py::enum_<core::Op>(m, "Op", "What an env in flight does.")
      .value("create", core::Op::kCreate)
      .value("reset", core::Op::kReset)
      .value("step", core::Op::kStep)
      .value("step_and_reset", core::Op::kStepAndReset)
      .value("steps", core::Op::kSteps);

  // pybind11's own buffers allocate, and make a BufferError of a bad_alloc.
  const py::custom_type_setup is_buffer([](PyHeapTypeObject* type) {
    type->ht_type.tp_as_buffer = &type->as_buffer;
    type->as_buffer.bf_getbuffer = [](PyObject* self, Py_buffer* view, int flags) {
      auto& arena = py::handle(self).cast<Arena&>();
      return PyBuffer_FillInfo(view, self, arena.data(), static_cast<py::ssize_t>(arena.size()), 0, flags);
    };
  });
  py::class_<Arena, std::shared_ptr<Arena>>(m, "Arena", is_buffer,
                                            "The memory that a pool and its workers share: bytes.")
      .def("__init__",
           Constructor(
               +[](int descriptor, std::vector<std::uint32_t> first_env, const py::list& entries, bool make) {
                 core::ArenaShape shape;
                 shape.first_env = std::move(first_env);
                 for (const Spec& spec : ToSpecs(entries)) {
                   auto& bytes = spec.role == TRP_ACTION ? shape.action_bytes : shape.output_bytes;
                   bytes.push_back(spec.row_bytes());
                 }
                 return std::make_shared<Arena>(descriptor, std::move(shape), make);
               }),
           kConstructs, py::arg("descriptor"), py::arg("first_env"), py::arg("entries"), py::arg("make"))
      .def_property_readonly("action_offsets", &Arena::actions, "Of env 0's row of each action, in bytes.")
      .def_property_readonly(
          "step_time",
          [](const Arena& arena) {
            const auto [steps, time] = arena.StepTime();
            return std::pair(steps, std::chrono::duration<double>(time).count());
          },
          "How many steps the workers have made, and the seconds that these took.")
      .def(
          "send_word",
          [](Arena& arena, int worker) {
            arena.mailbox(worker).has_message.store(1, std::memory_order_seq_cst);
            arena.mailbox(worker).doorbell.Ring();
          },
          py::arg("worker"), "There is something in this worker's channel.")
      .def(
          "is_at_work",
          [](Arena& arena, int worker) {
            const core::Mailbox& mailbox = arena.mailbox(worker);
            return mailbox.asked.load(std::memory_order_relaxed) !=
                   mailbox.finished.load(std::memory_order_acquire);
          },
          py::arg("worker"));

  py::class_<Port>(m, "WorkerPort", "A worker's end: what it is asked for, and where results go.")
      .def("__init__",
           Constructor(+[](std::shared_ptr<Arena> arena, int worker, const py::list& entries,
                           bool flags_lost) {
             return std::make_unique<Port>(std::move(arena), worker, OutputsOf(ToSpecs(entries)), flags_lost);
           }),
           kConstructs, py::kw_only(), py::arg("arena"), py::arg("worker"), py::arg("entries"),
           py::arg("flags_lost"))
      .def("serve", [](Port& port, const py::dict& adapters, const py::set& unset, const py::list& actions,
                       const py::function& fail, const py::function& work,
                       bool waits) { port.Serve({adapters, unset, actions, fail, work}, waits); })
      .def("disown", &Port::Disown)
      .def("seed_of", &Port::SeedOf)
      .def("note_of", &Port::NoteOf)
      .def("is_last", &Port::IsLast)
      .def("stepped", &Port::WasStepped)
      .def("was_reset", &Port::WasReset)
      .def("was_made", &Port::WasMade)
      .def("lost", &Port::Lost)
      .def("failed", &Port::Failed);

  m.def(
      "remote_config",
      [](const std::string& id, const py::list& entries) {
        return Object(std::const_pointer_cast<core::Config>(core::RemoteTask::Open(id, ToSpecs(entries))));
      },
      py::arg("id"), py::arg("entries"), "The configuration of envs in workers.");
}

}  // namespace torchrl_pool::bindings
