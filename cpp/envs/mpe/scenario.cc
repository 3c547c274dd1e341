#include "scenario.h"

#include <algorithm>
#include <cmath>

#include "canvas.h"

namespace torchrl_pool::mpe {
namespace {

constexpr std::int64_t kNumMoves = 5;  // to stay, and four directions

}  // namespace

void Scenario::AddAgents(std::int64_t count, const Entity& kind) {
  for (std::int64_t i = 0; i < count; ++i) {
    Entity agent = kind;
    agent.name += "_" + std::to_string(i);
    if (!agent.is_silent) agent.words.resize(num_words_);
    const std::size_t index = world_.agents().size();
    if (common_.group_map == "one_group_per_agent") {
      groups_.push_back({agent.name, index, 1});
    } else if (i == 0) {
      groups_.push_back({kind.name, index, static_cast<std::size_t>(count)});
    }
    world_.AddAgent(std::move(agent));
  }
}

void Scenario::AddLandmarks(std::int64_t count, const Entity& kind) {
  for (std::int64_t i = 0; i < count; ++i) world_.AddLandmark(kind);
}

Space Scenario::ActionsOf(const Entity& agent) const {
  const std::int64_t moves = agent.moves ? kNumMoves : 0;
  const auto words = agent.is_silent ? 0 : static_cast<std::int64_t>(num_words_);
  if (common_.continuous_actions) return Box<float>({moves + words}, 0, 1);
  return Discrete(std::max<std::int64_t>(moves, 1) * std::max<std::int64_t>(words, 1));
}

Specs Scenario::Describe(const std::string& observation) {
  Specs specs;
  std::int64_t state = 0;
  for (const Group& group : groups_) {
    const Entity& agent = agents()[group.first];
    const auto count = static_cast<std::int64_t>(group.count);
    View view;
    Observe(agent, view);
    state += count * view.size();
    const std::string prefix = group.name + "/";
    specs.push_back(
        Observation(prefix + "observation", PerAgent(count, Box<float>({view.size()})), observation));
    specs.push_back(Reward(prefix + "reward", {count, 1}));
    for (const char* flag : {"done", "terminated", "truncated"}) {
      specs.push_back(Done(prefix + flag, {count, 1}));
    }
    specs.push_back(Action(prefix + "action", PerAgent(count, ActionsOf(agent))));
  }
  specs.push_back(Info("state", Box<float>({state}), "the observations of all agents"));
  return specs;
}

void Scenario::Reset(Row& row) {
  steps_ = 0;
  for (Entity& entity : world_.all()) {
    entity.velocity = {};
    std::fill(entity.words.begin(), entity.words.end(), 0.0);
  }
  Begin(rng_);
  first_reach_ = Reach();
  Write(row, false, false);
}

void Scenario::Begin(Rng& rng) {
  const auto num_landmarks = static_cast<std::int64_t>(landmarks().size());
  for (std::size_t& goal : goals_) goal = static_cast<std::size_t>(rng.Integers(0, num_landmarks));
  Scatter(rng, world_.all());
}

Outcome Scenario::Step(Row& row) {
  Act(row);
  world_.Step();
  AfterMoves();
  const double global_reward = local_ratio_ ? GlobalReward() : 0;
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    float* rewards = row.Out<float>(static_cast<int>(g) * kNumOutputs + kReward);
    for (const Entity& agent : agents().subspan(groups_[g].first, groups_[g].count)) {
      double reward = RewardOf(agent);
      if (local_ratio_) reward = global_reward * (1 - *local_ratio_) + reward * *local_ratio_;
      *rewards++ = static_cast<float>(0.0 + reward);  // the sum over the turns of a step, so never -0
    }
  }
  steps_ = std::min(steps_ + 1, common_.max_cycles);
  const bool truncated = steps_ == common_.max_cycles;
  const bool terminated = !truncated && IsSolved();
  Write(row, terminated, truncated);
  return {.terminated = terminated, .truncated = truncated};
}

void Scenario::Act(Row& row) {
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    const std::span<Entity> group = agents().subspan(groups_[g].first, groups_[g].count);
    for (std::size_t i = 0; i < group.size(); ++i) {
      Entity& agent = group[i];
      if (common_.continuous_actions) {
        const std::size_t moves = agent.moves ? kNumMoves : 0;
        const float* numbers = row.Action<float>(static_cast<int>(g)) + i * (moves + agent.words.size());
        const auto number = [numbers](std::size_t k) { return std::clamp(numbers[k], 0.0f, 1.0f); };
        for (std::size_t k = 0; k < 2 && agent.moves; ++k) {
          agent.control[k] =
              (0.0 + static_cast<double>(number(2 * k + 2) - number(2 * k + 1))) * agent.acceleration;
        }
        for (std::size_t k = 0; k < agent.words.size(); ++k)
          agent.words[k] = 0.0 + static_cast<double>(number(moves + k));
      } else {
        std::int64_t choice = row.Action<std::int64_t>(static_cast<int>(g))[i];
        if (agent.moves) {
          const std::int64_t move = choice % kNumMoves;
          choice /= kNumMoves;
          agent.control = {};
          if (move > 0) agent.control[move > 2] = move % 2 ? -agent.acceleration : agent.acceleration;
        }
        for (std::size_t k = 0; k < agent.words.size(); ++k)
          agent.words[k] = static_cast<std::size_t>(choice) == k;
      }
    }
  }
}

void Scenario::Write(Row& row, bool terminated, bool truncated) {
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    const int first = static_cast<int>(g) * kNumOutputs;
    View view(row.Out<float>(first + kObservation));
    for (const Entity& agent : agents().subspan(groups_[g].first, groups_[g].count)) Observe(agent, view);
    const auto fill = [&](Output flag, bool value) {
      std::fill_n(row.Out<bool>(first + flag), groups_[g].count, value);
    };
    fill(kDone, terminated || truncated);
    fill(kTerminated, terminated);
    fill(kTruncated, truncated);
  }
  if (float* state = row.Out<float>(static_cast<int>(groups_.size()) * kNumOutputs)) {
    View view(state);
    for (const Entity& agent : agents()) Observe(agent, view);
  }
}

// How far from the middle anything is to be seen.
double Scenario::Reach() {
  double reach = 0;
  for (const Entity& entity : world_.all()) {
    for (const double x : entity.position) {
      if (ColourOf(entity)) reach = std::max(reach, std::abs(x));
    }
  }
  return reach;
}

// As pygame draws it for mpe2, but for the words.
void Scenario::Render(std::uint8_t* rgb) {
  const ImageSize size = RenderSize(common_);
  const auto width = static_cast<double>(size.width);
  const double middle = width / 2, margin = 0.9, reach = Reach();
  pictures::Canvas canvas(rgb, size, pictures::kWhite);
  for (const Entity& entity : world_.all()) {
    const std::optional<Colour> colour = ColourOf(entity);
    if (!colour) continue;
    const auto channel = [&](std::size_t i) { return static_cast<std::uint8_t>((*colour)[i] * 200); };
    const auto place = [&](double x) { return std::floor(x / reach * width / 2) * margin + middle; };
    const pictures::Point centre{place(entity.position[0]), place(-entity.position[1])};
    const double radius =
        entity.size * middle * (common_.dynamic_rescaling ? margin * first_reach_ / reach : 1);
    canvas.Disc(centre, radius, {channel(0), channel(1), channel(2)});
    canvas.Ring(centre, radius, pictures::kBlack);
  }
}

const std::vector<const Entity*>& Scenario::ByDistance(const Entity& agent,
                                                       std::span<const Entity> entities) {
  distances_.clear();
  for (const Entity& entity : entities) {
    if (&entity == &agent) continue;
    // Insertion, which keeps the order of equal ones and takes any numbers, also those that are none.
    distances_.emplace_back(Distance(entity, agent), &entity);
    for (std::size_t i = distances_.size() - 1; i > 0 && distances_[i - 1].first > distances_[i].first; --i) {
      std::swap(distances_[i - 1], distances_[i]);
    }
  }
  nearest_.clear();
  for (const auto& [distance, entity] : distances_) nearest_.push_back(entity);
  return nearest_;
}

}  // namespace torchrl_pool::mpe
