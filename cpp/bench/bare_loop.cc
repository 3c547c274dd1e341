#include "bare_loop.h"

#include <algorithm>
#include <future>
#include <utility>

#include "cache_line.h"
#include "errors.h"

namespace torchrl_pool::core {

struct alignas(kCacheLine) BareLoop::Share {
  struct Env {
    trp_env* env;
    std::int64_t elapsed_steps;
  };

  Share(const Config& config, const Layout& layout) : task(config.task()), scratch(layout.scratch_bytes) {
    for (const Target& target : layout.targets) {
      outputs.push_back(target.scratch == Target::kNoScratch ? nullptr : scratch.data() + target.scratch);
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
  ZeroedBytes scratch;
  std::vector<void*> outputs;  // in scratch
  trp_error error{};
  std::size_t next_action = 0;
  std::int64_t episodes = 0;  // that ended in this run
};

BareLoop::BareLoop(std::shared_ptr<const Config> config, std::uint32_t num_envs, int num_threads,
                   std::int64_t max_episode_steps)
    : config_(std::move(config)), layout_(*config_, {}), max_episode_steps_(max_episode_steps) {
  if (num_envs < 1 || num_threads < 1) {
    throw StatusError(TRP_INVALID_ARGUMENT, "a bare loop has at least one env and one thread");
  }
  const std::uint64_t count = std::min(num_envs, static_cast<std::uint32_t>(num_threads));
  for (std::uint64_t i = 0; i < count; ++i) {
    auto share = std::make_unique<Share>(*config_, layout_);
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
    std::vector<const void*> action(layout_.actions.size());
    share.episodes = 0;
    for (std::int64_t step = 0; step < steps; ++step) {
      for (Share::Env& env : share.envs) {
        if (++share.next_action >= actions.num_rows) share.next_action = 0;
        for (std::size_t i = 0; i < action.size(); ++i) {
          action[i] = actions.rows[i] + share.next_action * layout_.actions[i].row_bytes;
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

// On the calling thread and as many others as it takes; throws what the first of them threw, when all are
// done.
void BareLoop::OnAllThreads(const std::function<void(Share&)>& work) {
  std::vector<std::future<void>> others;
  for (std::size_t i = 1; i < shares_.size(); ++i) {
    others.push_back(std::async(std::launch::async, work, std::ref(*shares_[i])));
  }
  work(*shares_[0]);
  for (auto& other : others) other.get();
}

}  // namespace torchrl_pool::core
