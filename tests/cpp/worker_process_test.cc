// Workers that are processes: late, ended, or writing where they should not.
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "check.h"
#include "pool.h"
#include "workers/worker_port.h"

namespace torchrl_pool::core {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

bool Never() { return false; }

Clock::time_point deadline;
bool WhenOverdue() { return Clock::now() > deadline; }

std::vector<Spec> Entries() {
  const auto entry = [](const char* name, trp_role role, trp_dtype dtype) {
    return Spec{name, "", role, dtype, {1}, {}, {}, {}, false};
  };
  return {entry("action", TRP_ACTION, TRP_INT64), entry("count", TRP_OBSERVATION, TRP_INT64),
          entry("reward", TRP_REWARD, TRP_FLOAT32)};
}

int events_to_live = -1;  // of a worker that is started now; -1: for ever

// Something that a worker does, before or after which it may be killed.
void Event() {
  if (events_to_live >= 0 && events_to_live-- == 0) kill(getpid(), SIGKILL);
}

// An env's action is how many microseconds its step takes; a negative one ends the process.
void Serve(WorkerPort& port, const Request& request) {
  const Arena& arena = port.arena();
  for (std::uint32_t i = 0; i < request.count; ++i) {
    const std::uint32_t env = port.first_env() + request.first + i;
    if (request.op == Op::kStep || request.op == Op::kStepAndReset) {
      const auto time = *reinterpret_cast<std::int64_t*>(arena.ActionRow(0, env));
      if (time < 0) _exit(3);
      Event();
      std::this_thread::sleep_for(std::chrono::microseconds(std::min<std::int64_t>(time, 10'000'000)));
      ++*reinterpret_cast<std::int64_t*>(arena.OutputRow(0, env));
      Event();
      port.Stepped(env, 1.0, false, false);
    } else {
      Event();
      (void)port.SeedOf(env);
      port.WasReset(env, false, false);
    }
    Event();
    port.Finish();
    Event();
  }
}

class Processes {
 public:
  Processes(std::vector<std::uint32_t> first_env, std::optional<milliseconds> step_timeout,
            bool respawns = false)
      : num_envs(first_env.back()) {
    std::FILE* const file = std::tmpfile();
    CHECK(file);
    arena = std::make_shared<Arena>(fileno(file), ArenaShape{first_env, {8}, {8, 4}}, true);
    std::fclose(file);
    pids.resize(first_env.size() - 1);
    PoolOptions options;
    options.workers.emplace();
    options.workers->arena = arena;
    for (std::size_t i = 0; i < pids.size(); ++i) {
      options.workers->processes.push_back(Start(static_cast<int>(i)));
    }
    options.workers->step_timeout = step_timeout;
    options.workers->how_it_ended = [](int) { return std::string("has ended"); };
    if (respawns) {
      options.workers->respawn = [this](int worker) {
        before_respawn();
        return Start(worker);
      };
    }
    const auto config = RemoteTask::Open("Sleeping", Entries());
    pool = Pool::Open(std::vector<EnvRequest>(num_envs, EnvRequest{config, 0}), options, Never);
    actions.assign(num_envs, 10);
    count.assign(num_envs, 0);
    reward.assign(num_envs, 0);
    flags.assign(3 * num_envs, 0);
  }
  ~Processes() {
    pool->Close(Never);
    for (const pid_t pid : started) {
      kill(pid, SIGKILL);
      waitpid(pid, nullptr, 0);
    }
    for (const int descriptor : descriptors) close(descriptor);
  }

  int Start(int worker) {
    const pid_t pid = fork();
    if (pid == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      try {
        WorkerPort port(arena, worker);
        while (true) {
          // A user's call is asked for over a channel of its own: while it lasts nothing else is done.
          if (const auto request = port.Next()) {
            Event();
            Serve(port, *request);
          } else {
            Event();
            if (port.TakeMessage()) std::this_thread::sleep_for(milliseconds(700));
            port.Wait(milliseconds(100));
          }
        }
      } catch (...) {
        _exit(4);
      }
    }
    pids[static_cast<std::size_t>(worker)] = pid;
    started.push_back(pid);
    const int descriptor = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
    descriptors.push_back(descriptor);
    return descriptor;
  }

  Job& Submit(Op op, core::EnvRange envs, Delivery delivery = Delivery::kAwaited) {
    Job& job = pool->Begin(op);
    std::byte* const acting[] = {At(actions)};
    std::byte* const out[] = {At(count), op == Op::kReset ? nullptr : At(reward), At(flags),
                              At(flags, num_envs), At(flags, 2 * num_envs)};
    job.actions.SetBases(acting);
    job.out.SetBases(out);
    pool->Select(job, envs);
    pool->Submit(job, delivery, WhenOverdue);
    return job;
  }
  void Run(Op op, core::EnvRange envs) { pool->Wait(Submit(op, envs), WhenOverdue); }
  void RunAll(Op op) { Run(op, {0, num_envs}); }

  template <class T>
  static std::byte* At(std::vector<T>& values, std::size_t i = 0) {
    return reinterpret_cast<std::byte*>(values.data() + i);
  }

  const std::uint32_t num_envs;
  std::shared_ptr<Arena> arena;
  std::vector<pid_t> pids, started;
  std::vector<int> descriptors;
  std::unique_ptr<Pool> pool;
  std::vector<std::int64_t> actions, count;
  std::vector<float> reward;
  std::vector<std::uint8_t> flags;
  std::function<void()> before_respawn = [] {};
};

void HaveSeconds(int seconds) { deadline = Clock::now() + std::chrono::seconds(seconds); }

TEST(AWorkerIsLateFromWhenItHasBegun) {
  HaveSeconds(60);
  Processes processes({0, 1, 3}, milliseconds(300));
  processes.RunAll(Op::kReset);
  for (int round = 0; round < 3; ++round) {
    for (int warm = 0; warm < 20; ++warm) processes.Run(Op::kStep, {0, 1});
    Job& left = processes.Submit(Op::kStep, {1, 1}, Delivery::kLater);  // and not waited for yet
    std::this_thread::sleep_for(milliseconds(400));
    processes.actions[2] = 3000;
    processes.Run(Op::kStep, {2, 1});
    processes.pool->Wait(left, Never);
  }
}

TEST(AWorkerIsNotLateWhileItDoesWhatAUserAsksFor) {
  HaveSeconds(60);
  Processes processes({0, 2}, milliseconds(200));
  processes.RunAll(Op::kReset);
  processes.arena->mailbox(0).has_message = 1;
  processes.arena->mailbox(0).doorbell.Ring();
  std::this_thread::sleep_for(milliseconds(50));
  processes.RunAll(Op::kStep);  // after 700 ms
}

TEST(AWorkerThatIsLateIsEnded) {
  HaveSeconds(60);
  Processes processes({0, 1, 2}, milliseconds(200));
  processes.RunAll(Op::kReset);
  processes.actions[1] = 9'000'000;
  CHECK_THROWS(EnvFailure, "has not come back within 0.2 s", processes.RunAll(Op::kStep));
  CHECK_EQ(processes.pool->workers()->Ended(), std::vector<int>{1});
  processes.Run(Op::kStep, {0, 1});
}

TEST(AWorkerThatEndsIsReplacedWithinTheCall) {
  HaveSeconds(60);
  Processes processes({0, 2, 4}, {}, true);
  processes.RunAll(Op::kReset);
  for (int round = 0; round < 5; ++round) {
    processes.RunAll(Op::kStep);
    kill(processes.pids[round % 2], SIGKILL);
  }
  processes.RunAll(Op::kStep);
  processes.RunAll(Op::kReset);
}

TEST(AnInterruptComesOutOfTheCallThatReplacesAWorker) {
  HaveSeconds(60);
  Processes processes({0, 1}, {}, true);
  processes.RunAll(Op::kReset);
  kill(processes.pids[0], SIGKILL);
  processes.before_respawn = [] { throw Interrupted(); };
  CHECK_THROWS(Interrupted, "", processes.RunAll(Op::kStep));
  processes.before_respawn = [] {};
  processes.RunAll(Op::kReset);
  processes.RunAll(Op::kStep);
}

TEST(AWorkerThatCannotBeReplacedTellsWhy) {
  HaveSeconds(60);
  Processes processes({0, 1}, {}, true);
  processes.RunAll(Op::kReset);
  kill(processes.pids[0], SIGKILL);
  processes.before_respawn = [] { throw StatusError(TRP_RUNTIME_ERROR, "there is no room"); };
  CHECK_THROWS(EnvFailure, "has ended; no other process could be started: there is no room",
               processes.RunAll(Op::kStep));
}

TEST(AWorkerThatEndsWithoutAStepIsNotReplacedForEver) {
  HaveSeconds(60);
  Processes processes({0, 1}, {}, true);
  processes.RunAll(Op::kReset);
  processes.actions[0] = -1;  // its successor is asked for the same step, and ends at once
  CHECK_THROWS(EnvFailure, "its worker process has ended", processes.RunAll(Op::kStep));
}

// Whenever it is, what it had not finished has failed, or is done by its successor; and nothing else.
TEST(AWorkerThatIsKilledAtAnyEvent) {
  for (const bool respawns : {false, true}) {
    for (int event = 0; event < 24; ++event) {
      HaveSeconds(30);
      events_to_live = event;
      bool was_made = false;
      try {
        Processes processes({0, 2, 4}, {}, respawns);
        was_made = true;
        processes.before_respawn = [] { events_to_live = -1; };
        events_to_live = -1;
        std::size_t failed = 0;
        for (int call = 0; call < 12; ++call) {
          try {
            processes.RunAll(call % 4 == 0 ? Op::kReset : Op::kStepAndReset);
          } catch (const EnvFailure& failure) {
            failed += failure.faults.size();
            CHECK(!respawns || call == 0);
          } catch (const PoolError& error) {
            CHECK(failed > 0);  // what has failed is to be reset first
          }
          for (const int worker : processes.pool->workers()->Ended()) {
            processes.pool->workers()->Replace(worker, processes.Start(worker));
          }
        }
        processes.RunAll(Op::kReset);
        processes.RunAll(Op::kStep);
      } catch (const EnvFailure&) {
        CHECK(!was_made);  // both are killed as they make their envs
      }
      events_to_live = -1;
    }
  }
}

// A worker, or anything in it, may write anything to any word of what it shares. Whatever that leads to: each
// call ends, or can be interrupted; nothing is read or written beyond; and other pools are not concerned.
void WriteEverywhere(std::size_t first, std::size_t every) {
  const std::uint64_t values[] = {0, 1, 5, std::uint64_t{1} << 40, ~std::uint64_t{0}, 0x0101010101010101};
  std::size_t bytes = 0;
  {
    HaveSeconds(60);
    Processes processes({0, 2, 3}, {});
    bytes = processes.arena->size() - 3 * Arena::kMessageBytes + 64;
  }
  std::size_t number = 0;
  for (std::size_t word = 0; word * 8 < bytes; ++word) {
    if (number++ % every != first) continue;
    HaveSeconds(60);
    Processes processes({0, 2, 3}, milliseconds(1000));
    for (const std::uint64_t value : values) {
      auto* const at = reinterpret_cast<std::atomic<std::uint64_t>*>(processes.arena->data() + word * 8);
      const auto attempt = [&](const auto& act) {
        HaveSeconds(3);
        try {
          act();
        } catch (const EnvFailure&) {
        } catch (const PoolError&) {
        } catch (const Interrupted&) {
          std::printf("word %zu, value %llx: interrupted\n", word, static_cast<unsigned long long>(value));
          CHECK(false);
        }
      };
      attempt([&] { processes.RunAll(Op::kReset); });
      at->store(value);  // at rest
      attempt([&] { processes.RunAll(Op::kStep); });
      processes.actions.assign(3, 500);
      attempt([&] {
        Job& job = processes.Submit(Op::kStepAndReset, {0, 3});
        at->store(value);  // at work
        processes.pool->Wait(job, WhenOverdue);
      });
      for (const int worker : processes.pool->workers()->Ended()) {
        processes.pool->workers()->Replace(worker, processes.Start(worker));
      }
    }
  }
}

TEST(WildWritesOntoWordsOfTheSharedMemory) {
  const bool is_long = std::getenv("TORCHRL_POOL_LONG_TESTS") != nullptr;
  WriteEverywhere(0, is_long ? 1 : 7);
}

}  // namespace
}  // namespace torchrl_pool::core
