#include "gil.h"

#include <pthread.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "module.h"

namespace py = pybind11;

namespace torchrl_pool::bindings {
namespace {

using Clock = std::chrono::steady_clock;

// From an ordinary last function of atexit to the moment after which nobody may ask.
constexpr auto kEnding = std::chrono::milliseconds(200);

std::atomic<std::thread::id> ending_thread{};  // the one that ends the interpreter, from then on
std::atomic<Clock::time_point> end_began{};
std::atomic<int> num_requests{0};

bool IsFinalizing() {
#if PY_VERSION_HEX >= 0x030D0000
  return Py_IsFinalizing() != 0;
#else
  return _Py_IsFinalizing() != 0;
#endif
}

// Those who asked in time still get it: only then may the end go on. And those who ask elsewhere, in torch's
// functions, say: they come here next.
void BeginEnd() {
  end_began = Clock::now();
  ending_thread = std::this_thread::get_id();
  const py::gil_scoped_release release;
  std::this_thread::sleep_for(std::chrono::milliseconds(1));
  while (num_requests > 0) std::this_thread::sleep_for(std::chrono::microseconds(50));
}

// Counts this thread among those who ask, if it may.
bool Ask() {
  while (true) {
    ++num_requests;
    const std::thread::id ending = ending_thread;
    if (ending == std::thread::id() || ending == std::this_thread::get_id()) return true;
    const bool is_at_its_end = IsFinalizing();
    if (!is_at_its_end && Clock::now() > end_began.load() + kEnding) return true;
    --num_requests;
    if (is_at_its_end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

}  // namespace

GilRequest::GilRequest() : may_ask(Ask()) {}
GilRequest::~GilRequest() {
  if (may_ask) --num_requests;
}

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
