#include "bare_loop.h"

#include <algorithm>
#include <string>
#include <thread>
#include <utility>

#include "cache_line.h"
#include "errors.h"

namespace torchrl_pool::core {

struct alignas(kCacheLine) BareLoop::Share {
  struct Env {
    trp_env* env;
    std::int64_t elapsed_steps;
  };

  explicit Share(const Config& config) : task(config.task()) {
    std::vector<std::size_t> offsets;
    std::size_t bytes = 0;
    for (const Spec& spec : config.specs()) {
      if (spec.role == TRP_ACTION) continue;
      offsets.push_back(bytes);
      const std::size_t row = spec.size() * ItemSize(spec.dtype);
      bytes += (row + kCacheLine - 1) / kCacheLine * kCacheLine;
    }
    scratch.resize(bytes + kCacheLine);
    const auto begin = reinterpret_cast<std::uintptr_t>(scratch.data());
    std::byte* aligned = scratch.data() + (kCacheLine - begin % kCacheLine) % kCacheLine;
    auto offset = offsets.begin();
    for (const Spec& spec : config.specs()) {
      if (spec.role == TRP_ACTION) continue;
      outputs.push_back(spec.role == TRP_INFO ? nullptr : aligned + *offset);
      ++offset;
    }
  }
  ~Share() {
    for (const Env& env : envs) task.destroy(env.env);
  }
  Share(const Share&) = delete;
  Share& operator=(const Share&) = delete;

  void Check(int result) {
    if (result != TRP_OK) throw StatusError(static_cast<trp_status>(result), MessageOf(error));
  }

  void Create(const Config& config, std::uint32_t env_index) {
    trp_env* env = nullptr;
    Check(task.create(config.handle(), &env, &error));
    envs.push_back({env, 0});
    Check(task.seed(env, &env_index, 1, &error));
    Check(task.reset(env, outputs.data(), &error));
  }

  const trp_task& task;
  std::uint32_t first_env = 0, last_env = 0;
  std::vector<Env> envs;
  std::vector<std::byte> scratch;
  std::vector<void*> outputs;  // in scratch
  trp_error error{};
  std::size_t next_action = 0;
  std::int64_t episodes = 0;  // that ended in this run
  trp_status status = TRP_OK;
  std::string message;
};

BareLoop::BareLoop(std::shared_ptr<const Config> config, std::uint32_t num_envs, int num_threads,
                   std::int64_t max_episode_steps)
    : config_(std::move(config)), max_episode_steps_(max_episode_steps) {
  if (num_envs < 1 || num_threads < 1) {
    throw StatusError(TRP_INVALID_ARGUMENT, "a bare loop has at least one env and one thread");
  }
  for (const Spec& spec : config_->specs()) {
    if (spec.role == TRP_ACTION) action_bytes_.push_back(spec.size() * ItemSize(spec.dtype));
  }
  const std::uint64_t count = std::min(num_envs, static_cast<std::uint32_t>(num_threads));
  for (std::uint64_t i = 0; i < count; ++i) {
    auto share = std::make_unique<Share>(*config_);
    share->first_env = static_cast<std::uint32_t>(num_envs * i / count);
    share->last_env = static_cast<std::uint32_t>(num_envs * (i + 1) / count);
    share->next_action = share->first_env;
    shares_.push_back(std::move(share));
  }
  OnAllThreads([this](Share& share) {
    for (std::uint32_t env = share.first_env; env < share.last_env; ++env) share.Create(*config_, env);
  });
}

BareLoop::~BareLoop() = default;

std::int64_t BareLoop::Run(std::int64_t steps, const Actions& actions) {
  OnAllThreads([&](Share& share) {
    std::vector<const void*> action(action_bytes_.size());
    share.episodes = 0;
    for (std::int64_t step = 0; step < steps; ++step) {
      for (Share::Env& env : share.envs) {
        if (++share.next_action >= actions.num_rows) share.next_action = 0;
        for (std::size_t i = 0; i < action.size(); ++i) {
          action[i] = actions.rows[i] + share.next_action * action_bytes_[i];
        }
        trp_step_result result{};
        share.Check(share.task.step(env.env, action.data(), share.outputs.data(), &result, &share.error));
        ++env.elapsed_steps;
        const bool timed_out = max_episode_steps_ > 0 && env.elapsed_steps >= max_episode_steps_;
        if (!timed_out && !result.terminated && !result.truncated) continue;
        env.elapsed_steps = 0;
        ++share.episodes;
        share.Check(share.task.reset(env.env, share.outputs.data(), &share.error));
      }
    }
  });
  std::int64_t episodes = 0;
  for (const auto& share : shares_) episodes += share->episodes;
  return episodes;
}

// On the calling thread and as many others as it takes; throws what the first of them threw.
void BareLoop::OnAllThreads(const std::function<void(Share&)>& work) {
  const auto guarded = [&](Share& share) {
    share.status = TRP_OK;
    try {
      work(share);
    } catch (const StatusError& e) {
      share.status = e.status;
      share.message = e.what();
    }
  };
  std::vector<std::thread> threads;
  for (std::size_t i = 1; i < shares_.size(); ++i) threads.emplace_back(guarded, std::ref(*shares_[i]));
  guarded(*shares_[0]);
  for (std::thread& thread : threads) thread.join();
  for (const auto& share : shares_) {
    if (share->status != TRP_OK) throw StatusError(share->status, share->message);
  }
}

}  // namespace torchrl_pool::core
