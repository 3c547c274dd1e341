#include "gil.h"

#include <pthread.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "module.h"

namespace py = pybind11;

namespace torchrl_pool::bindings {
namespace {

std::atomic<std::thread::id> ending_thread{};  // the one that ends the interpreter, from then on
std::atomic<int> num_requests{0};

// Those who asked in time still get it: only then may the end go on.
void BeginEnd() {
  ending_thread = std::this_thread::get_id();
  const py::gil_scoped_release release;
  while (num_requests > 0) std::this_thread::sleep_for(std::chrono::microseconds(50));
}

bool MayAsk() {
  const std::thread::id ending = ending_thread;
  return ending == std::thread::id() || ending == std::this_thread::get_id();
}

}  // namespace

GilRequest::GilRequest() : may_ask((++num_requests, MayAsk())) {}
GilRequest::~GilRequest() { --num_requests; }

GilReleased::~GilReleased() {
  while (true) {
    if (const GilRequest request; request.may_ask) {
      PyEval_RestoreThread(thread_);
      return;
    }
    std::this_thread::sleep_for(std::chrono::hours(1));
  }
}

GilTaken::GilTaken() {
  const GilRequest request;
  if (request.may_ask) gil_.emplace();
}

void InitGil(py::module_&) {
  py::module_::import("atexit").attr("register")(py::cpp_function(&BeginEnd));
  // A child's other threads are gone, and their requests with them.
  pthread_atfork(nullptr, nullptr, [] { num_requests = 0; });
}

}  // namespace torchrl_pool::bindings
