// Workers without processes: threads at the other end of the shared memory.
#include "workers/worker_executor.h"

#include <atomic>
#include <chrono>
#include <cstdio>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "calls.h"
#include "chain.h"
#include "check.h"
#include "concurrency.h"
#include "outbox.h"
#include "pool.h"
#include "transforms/step_counter.h"
#include "workers/worker_port.h"

namespace torchrl_pool::core {
namespace {

bool Never() { return false; }

constexpr std::int64_t kEpisode = 7;

std::vector<Spec> Entries() {
  const auto entry = [](const char* name, trp_role role, trp_dtype dtype) {
    return Spec{name, "", role, dtype, {1}, {}, {}, {}, false};
  };
  return {entry("action", TRP_ACTION, TRP_INT64), entry("count", TRP_OBSERVATION, TRP_INT64),
          entry("reward", TRP_REWARD, TRP_FLOAT32)};
}

// Envs that count their steps up to kEpisode, in one thread.
class CountingWorker {
 public:
  CountingWorker(std::shared_ptr<Arena> arena, int worker)
      : port_(std::move(arena), worker), counts_(port_.num_envs()), thread_([this] { Run(); }) {}
  ~CountingWorker() {
    stop_ = true;
    thread_.join();
  }

 private:
  void Run() {
    while (!stop_) {
      if (const auto request = port_.Next()) {
        for (std::uint32_t i = 0; i < request->count; ++i) Do(*request, request->first + i);
      } else {
        port_.Wait(std::chrono::milliseconds(1));
      }
    }
  }

  void Do(const Request& request, std::uint32_t index) {
    const std::uint32_t env = port_.first_env() + index;
    const Arena& arena = port_.arena();
    std::int64_t& count = counts_[index];
    if (request.op == Op::kStep || request.op == Op::kStepAndReset) {
      if (*reinterpret_cast<std::int64_t*>(arena.ActionRow(0, env)) < 0) {
        port_.Failed(env, "a negative action");
        return port_.Finish();
      }
      *reinterpret_cast<std::int64_t*>(arena.OutputRow(0, env)) = ++count;
      *reinterpret_cast<float*>(arena.OutputRow(1, env)) = static_cast<float>(count);
      port_.Stepped(env, static_cast<double>(count), count == kEpisode, false);
      if (request.op == Op::kStep || count < kEpisode) return port_.Finish();
    }
    count = 0;
    if (!port_.SeedOf(env).empty()) count = port_.SeedOf(env)[0];
    *reinterpret_cast<std::int64_t*>(arena.RootRow(0, env)) = count;
    port_.WasReset(env, false, false);
    port_.Finish();
  }

  WorkerPort port_;
  std::vector<std::int64_t> counts_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

class Counting {
 public:
  explicit Counting(std::vector<std::uint32_t> first_env) : num_envs(first_env.back()) {
    std::FILE* const file = std::tmpfile();
    CHECK(file);
    const int num_workers = static_cast<int>(first_env.size()) - 1;
    arena = std::make_shared<Arena>(fileno(file), ArenaShape{first_env, {8}, {8, 4}}, true);
    for (int worker = 0; worker < num_workers; ++worker) {
      workers.push_back(std::make_unique<CountingWorker>(arena, worker));  // so that races are seen
    }
    std::fclose(file);
    PoolOptions options;
    options.workers.emplace();
    options.workers->arena = arena;
    options.workers->processes.assign(static_cast<std::size_t>(num_workers), -1);
    options.workers->save = [](std::uint32_t env) { return std::to_string(env); };
    options.workers->load = [](std::uint32_t env, std::string_view state) {
      if (state != std::to_string(env)) throw std::runtime_error("not this env's");
    };
    const auto config = RemoteTask::Open("Counting", Entries());
    pool = Pool::Open(std::vector<EnvRequest>(num_envs, EnvRequest{config, 0}), options, Never);
    actions.assign(num_envs, 1);
    count.assign(num_envs, -1);
    root.assign(num_envs, -1);
    reward.assign(num_envs, -1);
    for (auto* flags : {&done, &terminated, &truncated}) flags->assign(num_envs, 9);
  }
  ~Counting() { pool->Close(Never); }

  ApartVector<std::byte*> Out(std::vector<std::int64_t>& counts) {
    const auto at = [](auto& vector) { return reinterpret_cast<std::byte*>(vector.data()); };
    return {at(counts), at(reward), at(terminated), at(truncated), at(done)};
  }

  Job& Begin(Op op) {
    Job& job = pool->Begin(op);
    job.actions.base = {reinterpret_cast<std::byte*>(actions.data())};
    job.out.base = Out(op == Op::kReset ? root : count);
    if (op == Op::kStepAndReset)
      job.root.base = {reinterpret_cast<std::byte*>(root.data()), nullptr, nullptr, nullptr, nullptr};
    return job;
  }
  std::uint32_t Run(Op op) {
    Job& job = Begin(op);
    pool->Submit(job, Delivery::kAwaited, Never);
    return pool->Wait(job, Never);
  }

  const std::uint32_t num_envs;
  std::shared_ptr<Arena> arena;
  std::vector<std::unique_ptr<CountingWorker>> workers;
  std::unique_ptr<Pool> pool;
  std::vector<std::int64_t> actions, count, root;
  std::vector<float> reward;
  std::vector<std::uint8_t> done, terminated, truncated;
};

TEST(EpisodesBeginAgainInTheStepThatEndsThem) {
  Counting counting({0, 3, 3, 8});
  counting.Run(Op::kReset);
  for (std::int64_t step = 1; step < 3 * kEpisode; ++step) {
    const bool ends = step % kEpisode == 0;
    CHECK_EQ(counting.Run(Op::kStepAndReset), ends ? counting.num_envs : 0u);
    for (std::uint32_t env = 0; env < counting.num_envs; ++env) {
      CHECK_EQ(counting.count[env], ends ? kEpisode : step % kEpisode);
      CHECK_EQ(counting.done[env], ends);
      if (ends) CHECK_EQ(counting.root[env], 0);
    }
  }
}

// A chain may need more of an env than its worker was asked for at first: its step again, and a reset.
TEST(WorkersAreAskedAgain) {
  Counting counting({0, 3, 8});
  counting.Run(Op::kReset);
  const std::size_t own = counting.pool->layout().outputs.size();
  Chain chain({own, {sizeof(std::int64_t)}, 1, {sizeof(std::int64_t)}, {}});
  chain.Repeat({2, 1, 1, false});
  chain.Add(0, std::make_shared<StepCounterStage>(own + 1, own, 2, 3, 4), true, true);
  std::vector<std::int64_t> steps(counting.num_envs), before(counting.num_envs), next(counting.num_envs);
  for (std::int64_t step = 1; step <= 6; ++step) {
    Job& job = counting.pool->Begin(Op::kStepAndReset);
    chain.Extend(job);
    const auto at = [](auto& vector) { return reinterpret_cast<std::byte*>(vector.data()); };
    job.actions.base = {at(counting.actions), at(before)};
    job.out.base = counting.Out(counting.count);
    job.out.base.push_back(at(steps));
    job.root.base = {at(counting.root), nullptr, nullptr, nullptr, nullptr, at(next)};
    counting.pool->Submit(job, Delivery::kAwaited, Never);
    const bool ends = step % 2 == 0;  // by the chain's limit, which the workers do not know
    CHECK_EQ(counting.pool->Wait(job, Never), ends ? counting.num_envs : 0u);
    for (std::uint32_t env = 0; env < counting.num_envs; ++env) {
      CHECK_EQ(counting.count[env], ends ? 4 : 2);
      CHECK_EQ(counting.reward[env], ends ? 3.0f + 4.0f : 1.0f + 2.0f);
      CHECK_EQ(counting.truncated[env], ends);
      if (ends) CHECK(counting.root[env] == 0 && next[env] == 0);
    }
    before = ends ? next : steps;
  }
}

// Notes the first env of each job that it learns from.
class Noting final : public Stage {
 public:
  void Run(const StageRows&, When) const override {}
  void Learn(const BatchRows& rows, std::byte*) const override { noted.push_back(rows.env(0)); }

  mutable std::vector<std::uint32_t> noted;
};

TEST(WhoeverWaitsWorksOnWhatLearnsBefore) {
  Counting counting({0, 2, 4, 6});
  counting.Run(Op::kReset);
  Chain chain({counting.pool->layout().outputs.size(), {}, 1, {}, {}});
  const auto noting = std::make_shared<Noting>();
  chain.Add(1, noting, true, false);
  const auto submit = [&](std::uint32_t first, Delivery await) {
    Job& job = counting.Begin(Op::kStepAndReset);
    chain.Extend(job);
    counting.pool->Select(job, EnvRange{first, 2});
    counting.pool->Submit(job, await, Never);
    return &job;
  };
  Job* const jobs[] = {submit(2, Delivery::kLater), submit(0, Delivery::kLater),
                       submit(4, Delivery::kAwaited)};
  for (const int i : {2, 1, 0}) counting.pool->Wait(*jobs[i], Never);
  CHECK_EQ(noting->noted, (std::vector<std::uint32_t>{2, 0, 4}));
}

TEST(MasksCutThroughWorkers) {
  Counting counting({0, 4, 8});
  counting.Run(Op::kReset);
  const std::vector<std::uint8_t> mask = {1, 0, 1, 1, 1, 0, 0, 1};
  for (int step = 1; step < kEpisode; ++step) {
    Job& job = counting.Begin(Op::kStep);
    counting.pool->Select(job, mask.data());
    counting.pool->Submit(job, Delivery::kAwaited, Never);
    counting.pool->Wait(job, Never);
    for (std::uint32_t env = 0; env < 8; ++env) CHECK_EQ(counting.count[env], mask[env] ? step : -1);
  }
}

TEST(WorkersStepSomeEnvsAndResetOthersInOneCall) {
  Counting counting({0, 4, 8});
  counting.Run(Op::kReset);
  std::vector<std::int64_t> expected(8);
  for (int step = 0; step < 20; ++step) {
    Job& job = counting.Begin(Op::kStep);
    for (std::uint32_t env = 0; env < 8; ++env) {
      job.begins.push_back((env + step) % 3 == 0);
      expected[env] = job.begins[env] ? 0 : expected[env] + 1;
      counting.actions[env] = job.begins[env] ? -1 : 1;
    }
    counting.pool->Submit(job, Delivery::kAwaited, Never);
    CHECK_EQ(counting.pool->Wait(job, Never), 0u);
    CHECK(counting.count == expected);
  }
}

TEST(SeedsReachTheirEnvs) {
  Counting counting({0, 2, 4});
  Job& job = counting.Begin(Op::kReset);
  job.entropy = {{3}, {}, {4}, {}};
  counting.pool->Submit(job, Delivery::kAwaited, Never);
  counting.pool->Wait(job, Never);
  CHECK(counting.root == (std::vector<std::int64_t>{3, 0, 4, 0}));
}

TEST(OneThatFailsFailsAlone) {
  Counting counting({0, 2, 4});
  counting.Run(Op::kReset);
  counting.actions[1] = -1;
  try {
    counting.Run(Op::kStepAndReset);
    CHECK(false);
  } catch (const EnvFailure& failure) {
    CHECK_EQ(failure.faults.size(), 1u);
    CHECK_EQ(failure.faults[0].env_index, 1);
    CHECK_EQ(failure.faults[0].message, std::string("a negative action"));
  }
  CHECK(counting.count == (std::vector<std::int64_t>{1, 0, 1, 1}));
  counting.actions[1] = 1;
  counting.Run(Op::kReset);
  counting.Run(Op::kStepAndReset);
  CHECK_EQ(counting.count[1], 1);
}

// Each of several threads sends its own envs and receives whichever come first: every result once.
TEST(ResultsOneByOneFromSeveralThreads) {
  constexpr int kThreads = 3;
  constexpr std::uint32_t kRounds = 200;
  Counting counting({0, 5, 9, 12});
  Batch out, root;
  out.base = counting.Out(counting.count);
  root.base = {reinterpret_cast<std::byte*>(counting.root.data()), nullptr, nullptr, nullptr, nullptr};
  for (const std::size_t bytes : {8, 4, 1, 1, 1}) {
    out.stride.push_back(bytes);
    root.stride.push_back(bytes);
  }
  counting.Run(Op::kReset);
  counting.pool->PrepareAsync(out, root);
  std::atomic<std::uint32_t> received{0};
  const auto send = [&](const std::vector<std::uint32_t>& envs) {
    const std::vector<std::int64_t> actions(envs.size(), 1);
    const std::byte* const base = reinterpret_cast<const std::byte*>(actions.data());
    test::Send(*counting.pool, Op::kStepAndReset, envs, &base, false, Never);
  };
  std::vector<std::uint32_t> all;
  for (std::uint32_t env = 0; env < counting.num_envs; ++env) all.push_back(env);
  send(all);
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      std::vector<std::int64_t> counts(counting.num_envs);
      const std::vector<std::byte*> to = {reinterpret_cast<std::byte*>(counts.data()), nullptr, nullptr,
                                          nullptr, nullptr};
      const std::vector<std::byte*> nowhere(5);
      for (std::uint32_t round = 0; round < kRounds; ++round) {
        const auto results = counting.pool->Receive(Op::kStepAndReset, 1, 4, {}, Never);
        test::Take(*counting.pool, *results, to.data(), nowhere.data());
        for (std::size_t k = 0; k < results->envs.size(); ++k) CHECK(counts[k] >= 1);
        received += static_cast<std::uint32_t>(results->envs.size());
        send(results->envs);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const auto rest = counting.pool->Receive(Op::kStepAndReset, counting.num_envs, 0, {}, Never);
  CHECK_EQ(rest->envs.size(), counting.num_envs);
  CHECK(received.load() >= kThreads * kRounds);
}

// Calls of several threads for different envs, each of which may lead while the others sleep.
void PrepareAsync(Counting& counting) {
  Batch out, root;
  for (const std::size_t bytes : {8, 4, 1, 1, 1}) {
    out.AddColumn(bytes);
    root.AddColumn(bytes);
  }
  const auto places = counting.Out(counting.count);
  out.SetBases({places.data(), places.size()});
  root.base[0] = reinterpret_cast<std::byte*>(counting.root.data());
  counting.pool->PrepareAsync(out, root);
}

std::vector<std::uint32_t> AllOf(const Counting& counting) {
  std::vector<std::uint32_t> envs(counting.num_envs);
  for (std::uint32_t env = 0; env < counting.num_envs; ++env) envs[env] = env;
  return envs;
}

TEST(ClosedWhileEnvsAreInFlight) {
  Counting counting({0, 2});
  counting.Run(Op::kReset);
  PrepareAsync(counting);
  const auto* actions = reinterpret_cast<const std::byte*>(counting.actions.data());
  test::Send(*counting.pool, Op::kStep, AllOf(counting), &actions, false, Never);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  counting.pool->Close();
  CHECK(counting.pool->workers()->Ended().empty());
}

TEST(ClosedWhileAnotherThreadReceives) {
  for (int round = 0; round < 100; ++round) {
    Counting counting({0, 100});
    counting.Run(Op::kReset);
    PrepareAsync(counting);
    const auto envs = AllOf(counting);
    const auto* actions = reinterpret_cast<const std::byte*>(counting.actions.data());
    std::thread receiver([&] {
      const std::vector<std::byte*> nowhere(5);
      try {
        while (true) {
          test::Send(*counting.pool, Op::kStep, envs, &actions, false, Never);
          const auto received = counting.pool->Receive(Op::kStep, envs.size(), 0, {}, Never);
          test::Take(*counting.pool, *received, nowhere.data(), nowhere.data());
        }
      } catch (const PoolError&) {  // it is closed
      }
    });
    std::this_thread::sleep_for(std::chrono::microseconds(round % 50 * 20));
    counting.pool->Close();
    receiver.join();
  }
}

// Each thread steps envs of its own, receives others' and looks at any: every result comes once, and to whom
// it is for.
TEST(CallsSendsAndLooksOfSeveralThreads) {
  Counting counting({0, 3, 6, 9});
  counting.Run(Op::kReset);
  PrepareAsync(counting);
  test::Threads threads;
  for (std::uint32_t part = 0; part < 2; ++part) {
    threads.Start([&, part] {
      for (int step = 0; step < 200; ++step) {
        Job& job = counting.Begin(Op::kStepAndReset);
        counting.pool->Select(job, EnvRange{2 * part, 2});
        counting.pool->Submit(job, Delivery::kLater, Never);
        counting.pool->Wait(job, Never);
      }
    });
  }
  for (std::uint32_t env = 4; env < 6; ++env) {
    threads.Start([&, env] {
      const std::vector<std::byte*> nowhere(5);
      const auto* actions = reinterpret_cast<const std::byte*>(counting.actions.data());
      const std::uint32_t envs[] = {env};
      for (int step = 0; step < 200; ++step) {
        test::Send(*counting.pool, Op::kStepAndReset, envs, &actions, env == 5, Never);
        const auto received = env == 5 ? counting.pool->ReceiveAlone(Op::kStepAndReset, env, {}, Never)
                                       : counting.pool->Receive(Op::kStepAndReset, 1, 1, {}, Never);
        CHECK_EQ(received->envs, std::vector<std::uint32_t>{env});
        test::Take(*counting.pool, *received, nowhere.data(), nowhere.data());
      }
    });
  }
  threads.Start([&] {
    for (int round = 0; round < 2'000; ++round) {
      const auto env = static_cast<std::uint32_t>(round * 5) % 9;
      try {
        const auto state = test::Save(*counting.pool, env);
        test::Load(*counting.pool, env, state);
      } catch (const PoolError&) {  // it is in flight
      }
    }
  });
  threads.Join();
  for (std::uint32_t env = 0; env < 4; ++env) CHECK_EQ(counting.count[env], (200 - 1) % kEpisode + 1);
}

TEST(CallsOfSeveralThreads) {
  Counting counting({0, 3, 6});
  counting.Run(Op::kReset);
  std::vector<std::thread> threads;
  for (std::uint32_t part = 0; part < 3; ++part) {
    threads.emplace_back([&, part] {
      for (int step = 0; step < 300; ++step) {
        Job& job = counting.Begin(Op::kStepAndReset);
        counting.pool->Select(job, EnvRange{2 * part, 2});
        counting.pool->Submit(job, Delivery::kLater, Never);
        counting.pool->Wait(job, Never);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::int64_t count : counting.count) CHECK_EQ(count, (300 - 1) % kEpisode + 1);
}

}  // namespace
}  // namespace torchrl_pool::core
