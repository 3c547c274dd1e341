// The GIL, for threads that may outlive the interpreter. Before 3.14, Python ends a daemon thread that asks
// for the GIL after the interpreter's end has begun by unwinding its stack, and from frames of C++ that
// aborts the process. So no thread asks any more then but the one that ends the interpreter.
#ifndef TORCHRL_POOL_BINDINGS_GIL_H_
#define TORCHRL_POOL_BINDINGS_GIL_H_

#include <pybind11/pybind11.h>

#include <optional>

namespace torchrl_pool::bindings {

// A thread's question for the GIL. Without `may_ask` there is none to be had for this thread, ever.
//
// Functions of atexit are told of the end, not of its moment, and may still wait for threads: so at first
// those that come then wait, and then they ask, unless the moment is there.
class GilRequest {
 public:
  GilRequest();
  ~GilRequest();
  GilRequest(const GilRequest&) = delete;
  GilRequest& operator=(const GilRequest&) = delete;

  const bool may_ask;
};

// Without the GIL, for as long as this lives. At the interpreter's end its thread sleeps from then on.
class GilReleased {
 public:
  GilReleased() : thread_(PyEval_SaveThread()) {}
  ~GilReleased();
  GilReleased(const GilReleased&) = delete;
  GilReleased& operator=(const GilReleased&) = delete;

 private:
  PyThreadState* const thread_;
};

// With the GIL, for as long as this lives, unless the interpreter is at its end.
class GilTaken {
 public:
  GilTaken();
  explicit operator bool() const { return gil_.has_value(); }

 private:
  std::optional<pybind11::gil_scoped_acquire> gil_;
};

}  // namespace torchrl_pool::bindings

#endif  // TORCHRL_POOL_BINDINGS_GIL_H_
