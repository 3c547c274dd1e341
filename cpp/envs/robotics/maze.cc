#include "maze.h"

#include <charconv>
#include <cmath>
#include <initializer_list>
#include <stdexcept>

#include "numpy_blas.h"

namespace torchrl_pool::robotics {
namespace {

constexpr double kReached = 0.45;  // m
constexpr double kNoise = 0.25;    // of a cell
constexpr int kMostGoalDraws = 100'000;

// As Python writes numbers: with as many digits as tell them from all others.
std::string Text(std::initializer_list<double> numbers) {
  std::string text;
  for (const double number : numbers) {
    char digits[32];
    const auto [end, _] = std::to_chars(digits, digits + sizeof digits, number);
    if (!text.empty()) text += ' ';
    text.append(digits, end);
  }
  return text;
}

double Uniform(Rng& rng, double scaling) { return rng.Uniform(-kNoise, kNoise) * scaling; }

}  // namespace

Maze::Maze(const Map& map, double scaling, double height) : map_(map), scaling_(scaling), height_(height) {
  std::vector<Xy> both, free;
  for (std::size_t i = 0; i < map.size(); ++i) {
    if (map[i].empty() || map[i].size() != map[0].size()) {
      throw InvalidArgument("maze_map: expected rows of equal length, got '" + map[i] + "' after '" + map[0] +
                            "'");
    }
    for (std::size_t j = 0; j < map[i].size(); ++j) {
      const Xy xy = Center({static_cast<std::int64_t>(i), static_cast<std::int64_t>(j)});
      switch (map[i][j]) {
        case '1':
          break;
        case '0':
          free.push_back(xy);
          break;
        case 'r':
          starts_.push_back(xy);
          break;
        case 'g':
          goals_.push_back(xy);
          break;
        case 'c':
          both.push_back(xy);
          break;
        default:
          throw InvalidArgument("maze_map: expected the letters 0, 1, r, g and c, got '" + map[i] + "'");
      }
    }
  }
  if (both.empty() && goals_.empty() && starts_.empty()) {
    both = free;
  } else if (both.empty() && starts_.empty()) {
    starts_ = free;
  } else if (both.empty() && goals_.empty()) {
    goals_ = free;
  }
  goals_.insert(goals_.end(), both.begin(), both.end());
  starts_.insert(starts_.end(), both.begin(), both.end());
  if (goals_.empty() || starts_.empty()) {
    throw InvalidArgument("maze_map: it has no cell for " + std::string(goals_.empty() ? "goals" : "starts") +
                          "; expected '0', '" + (goals_.empty() ? "g" : "r") + "' or 'c'");
  }
}

std::string Maze::AddTo(const std::string& xml) const {
  const std::size_t end = xml.find("</worldbody>");
  if (end == std::string::npos) throw InvalidArgument("xml_file: the model has no <worldbody>");
  const double half = height_ / 2 * scaling_, side = 0.5 * scaling_;
  std::string parts;
  for (std::size_t i = 0; i < map_.size(); ++i) {
    for (std::size_t j = 0; j < map_[i].size(); ++j) {
      if (map_[i][j] != '1') continue;
      const auto [x, y] = Center({static_cast<std::int64_t>(i), static_cast<std::int64_t>(j)});
      parts += "<geom name=\"block_" + std::to_string(i) + "_" + std::to_string(j) + "\" pos=\"" +
               Text({x, y, half}) + "\" size=\"" + Text({side, side, half}) +
               R"(" type="box" material="" contype="1" conaffinity="1" rgba="0.7 0.5 0.3 1.0"/>)";
    }
  }
  parts += "<site name=\"target\" pos=\"" + Text({0, 0, half}) + "\" size=\"" + Text({0.2 * scaling_}) +
           R"(" rgba="1 0 0 0.7" type="sphere"/>)";
  return xml.substr(0, end) + parts + xml.substr(end);
}

Xy Maze::Center(Cell cell) const {
  const double width = static_cast<double>(map_[0].size()), length = static_cast<double>(map_.size());
  return {(static_cast<double>(cell[1]) + 0.5) * scaling_ - width / 2 * scaling_,
          length / 2 * scaling_ - (static_cast<double>(cell[0]) + 0.5) * scaling_};
}

bool Maze::IsFree(Cell cell) const {
  const auto inside = [](std::int64_t i, std::size_t count) {
    return i >= 0 && i < static_cast<std::int64_t>(count);
  };
  return inside(cell[0], map_.size()) && inside(cell[1], map_[0].size()) &&
         map_[static_cast<std::size_t>(cell[0])][static_cast<std::size_t>(cell[1])] != '1';
}

void MazeResetOptions::Check(const std::string& name, const std::optional<Cell>& cell) const {
  if (!cell || maze_->IsFree(*cell)) return;
  const Map& map = maze_->map();
  throw InvalidArgument(name + ": expected a row below " + std::to_string(map.size()) +
                        " and a column below " + std::to_string(map[0].size()) +
                        " where the maze has no wall, got [" + std::to_string((*cell)[0]) + ", " +
                        std::to_string((*cell)[1]) + "]");
}

Xy MazeGoal::Reset(const MazeResetOptions& chosen, Rng& rng) {
  goal_ = AddNoise(chosen.goal_cell ? maze().Center(*chosen.goal_cell) : DrawGoal(rng), rng);
  return AddNoise(chosen.reset_cell ? maze().Center(*chosen.reset_cell) : DrawStart(rng), rng);
}

bool MazeGoal::IsReached(const Xy& achieved) const { return Norm(Difference(achieved, goal_)) <= kReached; }

Outcome MazeGoal::Judge(const Xy& achieved) const {
  const double distance = Distance(achieved, goal_);
  const double sparse = distance <= kReached ? 1 : 0;
  return {.reward = options_.reward_type == "dense" ? std::exp(-distance) : sparse,
          .terminated = !options_.continuing_task && IsReached(achieved)};
}

void MazeGoal::Advance(const Xy& achieved, Rng& rng) {
  if (!options_.continuing_task || !options_.reset_target || maze().goals().size() <= 1) return;
  for (int i = 0; IsReached(achieved); ++i) {
    if (i == kMostGoalDraws)
      throw std::runtime_error("maze_map: no goal is further than 0.45 m from the robot");
    goal_ = AddNoise(DrawGoal(rng), rng);
  }
}

void MazeGoal::Show(double* site_position) const {
  site_position[0] = goal_[0];
  site_position[1] = goal_[1];
  site_position[2] = maze().mark_height();
}

Xy MazeGoal::AddNoise(Xy place, Rng& rng) const {
  const double x = Uniform(rng, maze().scaling()), y = Uniform(rng, maze().scaling());
  return {place[0] + x, place[1] + y};
}

Xy MazeGoal::DrawGoal(Rng& rng) const {
  const auto& goals = maze().goals();
  return goals[static_cast<std::size_t>(rng.Integers(0, static_cast<std::int64_t>(goals.size())))];
}

// Not too near to the goal.
Xy MazeGoal::DrawStart(Rng& rng) const {
  const auto& starts = maze().starts();
  for (int i = 0; i < kMostGoalDraws; ++i) {
    const Xy start =
        starts[static_cast<std::size_t>(rng.Integers(0, static_cast<std::int64_t>(starts.size())))];
    if (Norm(Difference(start, goal_)) > 0.5 * maze().scaling()) return start;
  }
  throw std::runtime_error("maze_map: all places to start from are within half a cell of the goal");
}

const std::array<NamedMap, 10>& NamedMaps() {
  static const std::array<NamedMap, 10> maps{{
      {"UMaze", {"11111", "10001", "11101", "10001", "11111"}, 0},
      {"Open", {"1111111", "1000001", "1000001", "1000001", "1111111"}, 0},
      {"Open_Diverse_G", {"1111111", "1rgggg1", "1ggggg1", "1ggggg1", "1111111"}, 0},
      {"Open_Diverse_GR", {"1111111", "1ccccc1", "1ccccc1", "1ccccc1", "1111111"}, 0},
      {"Medium",
       {"11111111", "10011001", "10010001", "11000111", "10010001", "10100101", "10001001", "11111111"},
       1},
      {"Medium_Diverse_G",
       {"11111111", "1r011001", "100100g1", "11000111", "10010001", "1g100101", "10001g01", "11111111"},
       1},
      {"Medium_Diverse_GR",
       {"11111111", "1c011001", "100100c1", "11000111", "10010001", "1c100101", "10001c01", "11111111"},
       1},
      {"Large",
       {"111111111111", "100001000001", "101101010101", "100000010001", "101111011101", "100101000001",
        "110101010111", "100100010001", "111111111111"},
       2},
      {"Large_Diverse_G",
       {"111111111111", "1r0001g00001", "101101010101", "10000g0100g1", "101111011101", "10g101000001",
        "110101010111", "1001g0g10g01", "111111111111"},
       2},
      {"Large_Diverse_GR",
       {"111111111111", "1c0001c00001", "101101010101", "10000c0100c1", "101111011101", "10c101000001",
        "110101010111", "1001c0c10c01", "111111111111"},
       2},
  }};
  return maps;
}

}  // namespace torchrl_pool::robotics
