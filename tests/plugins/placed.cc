// An env that tells on which threads and memory nodes it lives, and whether its row was there before it
// wrote.
#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <thread>
#include <vector>

#include "torchrl_pool/env.h"

namespace pool = torchrl_pool;

namespace {

std::int64_t PageFaults() {
  rusage usage;
  getrusage(RUSAGE_THREAD, &usage);
  return usage.ru_minflt;
}

class Placed {
 public:
  struct Options {
    std::int64_t row_bytes = 8;
    double create_seconds = 0, step_seconds = 0;

    template <class Visitor>
    void Visit(Visitor& visit) {
      visit("row_bytes", row_bytes, "size of an observation and of the env's own memory");
      visit("create_seconds", create_seconds, "how long it takes to create an env");
      visit("step_seconds", step_seconds, "how long a step takes");
    }
  };

  static pool::Specs MakeSpecs(const Options& options) {
    return {pool::Observation("observation", pool::Box<std::uint8_t>({options.row_bytes}), "written in full"),
            pool::Info("creator", pool::Box<std::int64_t>({}), "the thread that created the env"),
            pool::Info("visitor", pool::Box<std::int64_t>({}), "the thread of this visit"),
            pool::Info("node", pool::Box<std::int64_t>({}), "the creator's memory node"),
            pool::Info("memory", pool::Box<std::int64_t>({}), "address of the env's own memory"),
            pool::Info("faults", pool::Box<std::int64_t>({}), "page faults of writing the observation"),
            pool::Action("action", pool::Discrete(2))};
  }

  explicit Placed(const Options& options)
      : options_(options), creator_(gettid()), memory_(static_cast<std::size_t>(options.row_bytes), 1) {
    getcpu(nullptr, &node_);
    Sleep(options.create_seconds);
  }

  void Seed(pool::Entropy) {}
  void Reset(pool::Row& row) { Write(row); }

  pool::Outcome Step(pool::Row& row) {
    Sleep(options_.step_seconds);
    Write(row);
    return {.reward = 0, .terminated = false};
  }

 private:
  static void Sleep(double seconds) { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); }

  void Write(pool::Row& row) {
    const std::int64_t before = PageFaults();
    std::memset(row.Out<std::uint8_t>(0), 1, static_cast<std::size_t>(options_.row_bytes));
    const std::int64_t faults = PageFaults() - before;
    const std::int64_t values[] = {creator_, gettid(), node_, reinterpret_cast<std::int64_t>(memory_.data()),
                                   faults};
    for (int i = 0; i < 5; ++i) {
      if (auto* info = row.Out<std::int64_t>(i + 1)) *info = values[i];
    }
  }

  const Options& options_;
  const std::int64_t creator_;
  unsigned node_ = 0;
  std::vector<std::uint8_t> memory_;
};

const bool registered = pool::Register<Placed>({.id = "Placed-v0"});

}  // namespace

TORCHRL_POOL_PLUGIN("placed", "1.0")
