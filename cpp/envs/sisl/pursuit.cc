// Pursuers surround evaders on a grid with a building in its middle. References:
// pettingzoo/sisl/pursuit/pursuit_base.py and its utils, and TorchRL's PettingZooWrapper, which makes groups
// and entries of agents.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "canvas.h"
#include "numpy_sum.h"
#include "torchrl_pool/env.h"

namespace torchrl_pool::sisl {
namespace {

// As many agents of a kind, and cells on a side, as may be asked for. PettingZoo has no limits; here an
// observation of them all is of 100 megabytes.
constexpr double kMost = 200;
// Of a picture, for each cell's side.
constexpr std::int64_t kCellPixels = 30;

struct Cell {
  std::int64_t x = 0, y = 0;

  Cell operator+(const Cell& other) const { return {x + other.x, y + other.y}; }
  bool operator==(const Cell&) const = default;
};
constexpr std::array<Cell, 4> kDirections = {{{-1, 0}, {1, 0}, {0, 1}, {0, -1}}};

struct Options {
  std::int64_t x_size = 16, y_size = 16, max_cycles = 500;
  bool shared_reward = true;
  std::int64_t n_evaders = 30, n_pursuers = 8, obs_range = 7, n_catch = 2;
  bool freeze_evaders = false;
  double tag_reward = 0.01, catch_reward = 5.0, urgency_reward = -0.1;
  bool surround = true;
  double constraint_window = 1.0;
  std::string group_map = "by_name";
  std::vector<bool> building;  // by Index

  template <class Visitor>
  void Visit(Visitor& visit) {
    visit("x_size", x_size, "width of the grid", {.minimum = 1, .maximum = kMost});
    visit("y_size", y_size, "height of the grid", {.minimum = 1, .maximum = kMost});
    visit("max_cycles", max_cycles, "steps after which an episode is truncated", {.minimum = 1});
    visit("shared_reward", shared_reward, "all pursuers get the mean of what each has earned");
    visit("n_evaders", n_evaders, "how many flee", {.minimum = 1, .maximum = kMost});
    visit("n_pursuers", n_pursuers, "how many pursue", {.minimum = 1, .maximum = kMost});
    visit("obs_range", obs_range, "side of the square that a pursuer sees", {.minimum = 1, .maximum = kMost});
    visit("n_catch", n_catch, "without surround, how many pursuers on an evader's cell catch it",
          {.minimum = 0});
    visit("freeze_evaders", freeze_evaders, "evaders stay where they are");
    visit("tag_reward", tag_reward, "for each evader beside a pursuer");
    visit("catch_reward", catch_reward, "for each pursuer that catches an evader");
    visit("urgency_reward", urgency_reward, "for each step");
    visit("surround", surround, "an evader is caught where pursuers are on all free cells around it");
    visit("constraint_window", constraint_window, "part of each side within which an episode's agents begin",
          {.minimum = 0, .maximum = 1});
    visit("group_map", group_map, "all pursuers share entries, or each has its own",
          {.choices = {"by_name", "one_group_per_agent"}});
  }

  void Open() {
    const auto is_inside = [](std::int64_t i, std::int64_t size, double margin) {
      const double part = static_cast<double>(i) / static_cast<double>(size);
      return part > margin && part < 1.0 - margin;
    };
    for (std::int64_t y = 0; y < y_size; ++y) {
      for (std::int64_t x = 0; x < x_size; ++x) {
        building.push_back(is_inside(x, x_size, 0.3) && is_inside(y, y_size, 0.2));
      }
    }
  }

  std::size_t Index(const Cell& cell) const { return static_cast<std::size_t>(cell.y * x_size + cell.x); }
  bool IsOnGrid(const Cell& cell) const {
    return cell.x >= 0 && cell.x < x_size && cell.y >= 0 && cell.y < y_size;
  }
  bool IsFree(const Cell& cell) const { return IsOnGrid(cell) && !building[Index(cell)]; }

  std::int64_t GroupSize() const { return group_map == "by_name" ? n_pursuers : 1; }
};

class Pursuit {
 public:
  using Options = sisl::Options;

  explicit Pursuit(const Options& options)
      : options_(options),
        pursuers_(static_cast<std::size_t>(options.n_pursuers)),
        counts_{std::vector<float>(options.building.size()), std::vector<float>(options.building.size())},
        tags_(pursuers_.size()),
        earned_(pursuers_.size()),
        rewards_(pursuers_.size()) {}

  static Specs MakeSpecs(const Options& options) {
    const auto most = static_cast<double>(std::max(options.n_pursuers, options.n_evaders));
    const std::int64_t size = options.GroupSize(), side = options.obs_range;
    Specs specs;
    for (std::int64_t first = 0; first < options.n_pursuers; first += size) {
      const std::string prefix =
          options.group_map == "by_name" ? "pursuer/" : "pursuer_" + std::to_string(first) + "/";
      specs.push_back(Observation(prefix + "observation",
                                  PerAgent(size, Box<float>({side, side, 3}, 0, most)),
                                  "buildings, pursuers and evaders around"));
      specs.push_back(Reward(prefix + "reward", {size, 1}));
      for (const char* flag : {"done", "terminated", "truncated"}) {
        specs.push_back(Done(prefix + flag, {size, 1}));
      }
      specs.push_back(Action(prefix + "action", PerAgent(size, Discrete(kDirections.size() + 1))));
    }
    specs.push_back(Info("state", Box<float>({options.y_size, options.x_size, 3}, 0, most),
                         "buildings, pursuers and evaders everywhere"));
    return specs;
  }

  void Seed(Entropy entropy) { rng_ = Rng(entropy); }

  void Reset(Row& row) {
    steps_ = 0;
    const double start[] = {rng_.Uniform(0, 1 - options_.constraint_window),
                            rng_.Uniform(0, 1 - options_.constraint_window)};
    const auto along = [this](std::int64_t side, double part) {
      return static_cast<std::int64_t>(static_cast<double>(side) * part);
    };
    const auto corner = [&](double part) {
      return Cell{along(options_.x_size, start[0] + part), along(options_.y_size, start[1] + part)};
    };
    const Cell low = corner(0), high = corner(options_.constraint_window);
    evaders_.resize(static_cast<std::size_t>(options_.n_evaders));
    Place(pursuers_, low, high);
    Place(evaders_, low, high);
    Write(row, false, false);
  }

  Outcome Step(Row& row) {
    Count(evaders_, counts_[kEvaders]);
    for (std::size_t i = 0; i < pursuers_.size(); ++i) tags_[i] = Tag(pursuers_[i]);
    std::fill(rewards_.begin(), rewards_.end(), 0.0);
    const auto count = static_cast<double>(pursuers_.size());
    const double own_share = options_.shared_reward ? 0 : 1;
    // Pursuers move in turn, and all are rewarded after each turn.
    for (std::size_t i = 0; i < pursuers_.size(); ++i) {
      Move(pursuers_[i], row.Action<std::int64_t>(GroupOf(i))[PlaceOf(i)]);
      tags_[i] = Tag(pursuers_[i]);
      for (std::size_t k = 0; k < earned_.size(); ++k) earned_[k] = tags_[k] / count;
      if (i + 1 == pursuers_.size()) EndTurns();
      const double mean = Sum(earned_.data(), earned_.size()) / count;
      for (std::size_t k = 0; k < earned_.size(); ++k) {
        rewards_[k] += own_share * earned_[k] + (1 - own_share) * mean;
      }
    }
    for (std::size_t i = 0; i < rewards_.size(); ++i) {
      row.Out<float>(GroupOf(i) * kNumOutputs + kReward)[PlaceOf(i)] = static_cast<float>(rewards_[i]);
    }
    steps_ = std::min(steps_ + 1, options_.max_cycles);
    const bool truncated = steps_ == options_.max_cycles;
    const bool terminated = !truncated && evaders_.empty();
    Write(row, terminated, truncated);
    return {.terminated = terminated, .truncated = truncated};
  }

  static ImageSize RenderSize(const Options& options) {
    return {kCellPixels * options.y_size, kCellPixels * options.x_size};
  }

  // As pygame draws it for PettingZoo, but for the numbers of agents on a cell.
  void Render(std::uint8_t* rgb) const {
    pictures::Canvas canvas(rgb, RenderSize(options_), pictures::kBlack);
    for (std::int64_t y = 0; y < canvas.height(); ++y) {
      for (std::int64_t x = 0; x < canvas.width(); ++x) {
        if (options_.building[options_.Index({x / kCellPixels, y / kCellPixels})]) {
          canvas.Set(x, y, pictures::kWhite);
        }
      }
    }
    const std::int64_t side = kCellPixels * options_.obs_range, middle = kCellPixels / 2;
    for (const Cell& pursuer : pursuers_) {
      const std::int64_t left = kCellPixels * pursuer.x + middle - side / 2;
      const std::int64_t top = kCellPixels * pursuer.y + middle - side / 2;
      for (std::int64_t y = std::max<std::int64_t>(top, 0); y < std::min(top + side, canvas.height()); ++y) {
        for (std::int64_t x = std::max<std::int64_t>(left, 0); x < std::min(left + side, canvas.width());
             ++x) {
          std::uint8_t* pixel = canvas.At(x, y);
          for (const int channel : {255, 152, 72}) {
            *pixel = static_cast<std::uint8_t>((*pixel + channel) / 2);
            ++pixel;
          }
        }
      }
    }
    const auto draw = [&](const std::vector<Cell>& agents, pictures::Colour colour) {
      for (const Cell& agent : agents) {
        const auto along = [&](std::int64_t i) { return static_cast<double>(kCellPixels * i + middle); };
        canvas.Disc({along(agent.x), along(agent.y)}, kCellPixels / 3, colour);
      }
    };
    draw(evaders_, {0, 0, 255});
    draw(pursuers_, {255, 0, 0});
  }

  template <class Visitor>
  void VisitState(Visitor& visit) {
    visit(rng_);
    visit.Bounded(steps_, 0, options_.max_cycles);
    std::size_t num_evaders = evaders_.size();
    visit.Bounded(num_evaders, 0, static_cast<std::size_t>(options_.n_evaders));
    if constexpr (Visitor::kReading) evaders_.resize(num_evaders);
    for (auto* agents : {&pursuers_, &evaders_}) {
      for (Cell& cell : *agents) {
        visit.Bounded(cell.x, 0, options_.x_size - 1);
        visit.Bounded(cell.y, 0, options_.y_size - 1);
      }
    }
  }

 private:
  // The outputs of each group, in the order of the specs.
  enum Output { kObservation, kReward, kDone, kTerminated, kTruncated, kNumOutputs };
  enum Kind { kPursuers, kEvaders };

  int GroupOf(std::size_t pursuer) const { return static_cast<int>(pursuer) / GroupSize(); }
  std::size_t PlaceOf(std::size_t pursuer) const { return pursuer % static_cast<std::size_t>(GroupSize()); }
  int GroupSize() const { return static_cast<int>(options_.GroupSize()); }

  // Gives agents of a kind places between two corners, none beside another. PettingZoo draws until there is
  // one for each, for ever where those before leave none.
  void Place(std::vector<Cell>& agents, const Cell& low, const Cell& high) {
    std::vector<bool> is_taken = options_.building;
    const auto has_room = [&] {
      for (std::int64_t y = low.y; y < high.y; ++y) {
        for (std::int64_t x = low.x; x < high.x; ++x) {
          if (!is_taken[options_.Index({x, y})]) return true;
        }
      }
      return false;
    };
    for (std::size_t i = 0; i < agents.size(); ++i) {
      if (!has_room()) {
        throw InvalidArgument(
            "expected room for n_pursuers=" + std::to_string(options_.n_pursuers) +
            " and n_evaders=" + std::to_string(options_.n_evaders) +
            ", none beside another of its kind; those before number " + std::to_string(i) +
            " leave none of the " + std::to_string(high.x - low.x) + " by " + std::to_string(high.y - low.y) +
            " cells of this episode's window: choose fewer, or a larger x_size, y_size or constraint_window");
      }
      Cell& agent = agents[i];
      do {
        agent.x = rng_.Integers(low.x, high.x);
        agent.y = rng_.Integers(low.y, high.y);
      } while (is_taken[options_.Index(agent)]);
      is_taken[options_.Index(agent)] = true;
      for (const Cell& direction : kDirections) {
        const Cell neighbour = agent + direction;
        if (options_.IsOnGrid(neighbour)) is_taken[options_.Index(neighbour)] = true;
      }
    }
  }

  void Move(Cell& agent, std::int64_t choice) const {
    if (choice == static_cast<std::int64_t>(kDirections.size())) return;  // it stays
    const Cell next = agent + kDirections[static_cast<std::size_t>(choice)];
    if (options_.IsFree(next)) agent = next;
  }

  static bool AreBeside(const Cell& a, const Cell& b) {
    return std::any_of(kDirections.begin(), kDirections.end(),
                       [&](const Cell& direction) { return a + direction == b; });
  }

  void Count(const std::vector<Cell>& agents, std::vector<float>& counts) const {
    std::fill(counts.begin(), counts.end(), 0.0f);
    for (const Cell& agent : agents) ++counts[options_.Index(agent)];
  }

  // At the edge of the grid a pursuer's own cell is counted in the place of the one beyond.
  double Tag(const Cell& pursuer) const {
    double evaders = 0;
    for (const Cell& direction : kDirections) {
      const Cell cell = pursuer + direction;
      const auto index = options_.Index(options_.IsOnGrid(cell) ? cell : pursuer);
      evaders += static_cast<double>(counts_[kEvaders][index]);
    }
    return options_.tag_reward * evaders;
  }

  // After the last pursuer's turn: those who are caught are gone, the others move.
  void EndTurns() {
    Count(pursuers_, counts_[kPursuers]);
    std::vector<bool> has_caught(pursuers_.size());
    std::erase_if(evaders_, [&](const Cell& evader) {
      if (!IsCaught(evader)) return false;
      for (std::size_t i = 0; i < pursuers_.size(); ++i) {
        if (options_.surround ? AreBeside(evader, pursuers_[i]) : evader == pursuers_[i])
          has_caught[i] = true;
      }
      return true;
    });
    if (!options_.freeze_evaders) {
      for (Cell& evader : evaders_) Move(evader, rng_.Integers(0, kDirections.size() + 1));
    }
    for (std::size_t i = 0; i < earned_.size(); ++i) {
      earned_[i] += options_.catch_reward * (has_caught[i] ? 1.0 : 0.0);
      earned_[i] += options_.urgency_reward;
    }
  }

  bool IsCaught(const Cell& evader) const {
    const auto pursuers_on = [this](const Cell& cell) { return counts_[kPursuers][options_.Index(cell)]; };
    if (!options_.surround) return pursuers_on(evader) >= static_cast<float>(options_.n_catch);
    int needed = 4, found = 0;
    needed -= evader.x == 0 || evader.x == options_.x_size - 1;  // once, also where both ends are one
    needed -= evader.y == 0 || evader.y == options_.y_size - 1;
    for (const Cell& direction : kDirections) {
      const Cell cell = evader + direction;
      if (!options_.IsOnGrid(cell)) continue;
      needed -= options_.building[options_.Index(cell)];
      found += pursuers_on(cell) > 0;
    }
    return found == needed;
  }

  float* WriteCell(const Cell& cell, float* out) const {
    const std::size_t index = options_.Index(cell);
    *out++ = options_.building[index];
    *out++ = counts_[kPursuers][index];
    *out++ = counts_[kEvaders][index];
    return out;
  }

  void Write(Row& row, bool terminated, bool truncated) {
    Count(pursuers_, counts_[kPursuers]);
    Count(evaders_, counts_[kEvaders]);
    const auto side = options_.obs_range, reach = (side - 1) / 2;
    for (std::size_t i = 0; i < pursuers_.size(); ++i) {
      const int first = GroupOf(i) * kNumOutputs;
      float* out =
          row.Out<float>(first + kObservation) + PlaceOf(i) * static_cast<std::size_t>(side * side * 3);
      for (std::int64_t y = 0; y < side; ++y) {
        for (std::int64_t x = 0; x < side; ++x) {
          const Cell cell = pursuers_[i] + Cell{x - reach, y - reach};
          // Of an even side, the last row and column are beyond what it sees.
          if (options_.IsOnGrid(cell) && x <= 2 * reach && y <= 2 * reach) {
            out = WriteCell(cell, out);
          } else {
            for (const float channel : {1.0f, 0.0f, 0.0f}) *out++ = channel;
          }
        }
      }
      row.Out<bool>(first + kDone)[PlaceOf(i)] = terminated || truncated;
      row.Out<bool>(first + kTerminated)[PlaceOf(i)] = terminated;
      row.Out<bool>(first + kTruncated)[PlaceOf(i)] = truncated;
    }
    const auto num_groups = static_cast<int>(pursuers_.size()) / GroupSize();
    if (float* state = row.Out<float>(num_groups * kNumOutputs)) {
      for (std::int64_t y = 0; y < options_.y_size; ++y) {
        for (std::int64_t x = 0; x < options_.x_size; ++x) state = WriteCell({x, y}, state);
      }
    }
  }

  const Options& options_;
  std::vector<Cell> pursuers_, evaders_;
  std::vector<float> counts_[2];                 // of each kind, by Index
  std::vector<double> tags_, earned_, rewards_;  // of pursuers: for neighbours, in a turn, in a step
  Rng rng_;
  std::int64_t steps_ = 0;
};

const bool registered_pursuit =
    Register<Pursuit>({.id = "sisl/pursuit_v5", .description = "pursuers surround evaders on a grid"});

}  // namespace
}  // namespace torchrl_pool::sisl
