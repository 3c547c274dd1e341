// Threads, children and waiting, for tests.
#ifndef TORCHRL_POOL_TESTS_CONCURRENCY_H_
#define TORCHRL_POOL_TESTS_CONCURRENCY_H_

#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace torchrl_pool::test {

inline void SleepMs(int milliseconds) {
  std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
}

// Whether the condition comes true, sooner or later. The limit is for broken code only.
template <class Condition>
bool Eventually(Condition&& condition) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  return true;
}

// Threads whose failed checks fail the test that joins them.
class Threads {
 public:
  ~Threads() { JoinAll(); }

  template <class Function>
  void Start(Function function) {
    threads_.emplace_back([this, function = std::move(function)]() mutable {
      try {
        function();
      } catch (...) {
        std::lock_guard lock(mutex_);
        if (!error_) error_ = std::current_exception();
      }
    });
  }

  void Join() {
    JoinAll();
    if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
  }

 private:
  void JoinAll() {
    for (auto& thread : threads_) thread.join();
    threads_.clear();
  }

  std::vector<std::thread> threads_;
  std::mutex mutex_;
  std::exception_ptr error_;
};

// Runs `body` in a forked child and returns its result, or minus the signal that ended it: SIGALRM (14) when
// it took longer than `seconds`.
inline int RunInChild(unsigned seconds, const std::function<int()>& body) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(seconds);
    int code = 99;
    try {
      code = body();
    } catch (...) {
    }
    _exit(code);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

}  // namespace torchrl_pool::test

#endif  // TORCHRL_POOL_TESTS_CONCURRENCY_H_
