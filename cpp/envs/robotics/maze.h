// A maze of cells, in which a robot is to reach a place. Reference: gymnasium_robotics/envs/maze/maze_v4.py
// and maps.py, version 1.4.2.
#ifndef TORCHRL_POOL_ENVS_ROBOTICS_MAZE_H_
#define TORCHRL_POOL_ENVS_ROBOTICS_MAZE_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "goal.h"
#include "torchrl_pool/env.h"

namespace torchrl_pool::robotics {

using Xy = std::array<double, 2>;
using Cell = std::array<std::int64_t, 2>;  // row, column
using Map = std::vector<std::string>;      // a string for each row, a letter for each cell

// A cell is a wall (1), free (0), or where a robot may start (r), a goal may be (g), or both (c).
class Maze {
 public:
  // Throws InvalidArgument where it is no map.
  Maze(const Map& map, double scaling, double height);

  // A model's XML with the walls of the maze in it, and the mark of the goal.
  std::string AddTo(const std::string& xml) const;

  Xy Center(Cell cell) const;
  bool IsFree(Cell cell) const;
  const Map& map() const { return map_; }
  double scaling() const { return scaling_; }
  double mark_height() const { return height_ / 2 * scaling_; }
  const std::vector<Xy>& goals() const { return goals_; }
  const std::vector<Xy>& starts() const { return starts_; }

 private:
  Map map_;
  double scaling_, height_;
  std::vector<Xy> goals_, starts_;
};

struct MazeOptions {
  Map maze_map;
  std::string reward_type;
  bool continuing_task = true;
  bool reset_target = false;

  // What Open makes of them.
  std::optional<Maze> maze;

  template <class Visitor>
  void VisitMaze(Visitor& visit) {
    visit("maze_map", maze_map,
          "rows of cells: '1' is a wall, '0' free, 'r' where the robot may start, 'g' where the goal may be, "
          "'c' both");
    VisitRewardType(visit, reward_type,
                    "'sparse': 1 within 0.45 m of the goal, else 0; 'dense': exp(-distance)");
    visit("continuing_task", continuing_task, "go on where the goal is reached, instead of terminating");
    visit("reset_target", reset_target, "in a continuing task: draw another goal where it is reached");
  }
};

// What a caller may choose for one reset.
struct MazeResetOptions {
  std::optional<Cell> goal_cell, reset_cell;

  explicit MazeResetOptions(const MazeOptions& options) : maze_(options.maze) {}

  template <class Visitor>
  void Visit(Visitor& visit) {
    visit("goal_cell", goal_cell, "row and column of the goal; None: drawn");
    visit("reset_cell", reset_cell, "row and column where the robot starts; None: drawn");
  }
  void Open() const {
    Check("goal_cell", goal_cell);
    Check("reset_cell", reset_cell);
  }

 private:
  void Check(const std::string& name, const std::optional<Cell>& cell) const;

  const std::optional<Maze>& maze_;
};

// The goal of one env, and what reaching it is worth.
class MazeGoal {
 public:
  explicit MazeGoal(const MazeOptions& options) : options_(options) {}

  // Draws a goal, and gives the place to start from.
  Xy Reset(const MazeResetOptions& chosen, Rng& rng);

  const Xy& place() const { return goal_; }
  bool IsReached(const Xy& achieved) const;
  Outcome Judge(const Xy& achieved) const;
  // What follows a step: another goal, where one is reached and another is wanted.
  void Advance(const Xy& achieved, Rng& rng);

  // Moves the mark in pictures.
  void Show(double* site_position) const;

  template <class Visitor>
  void VisitState(Visitor& visit) {
    visit(goal_);
  }

 private:
  const Maze& maze() const { return *options_.maze; }
  Xy AddNoise(Xy place, Rng& rng) const;
  Xy DrawGoal(Rng& rng) const;
  Xy DrawStart(Rng& rng) const;

  const MazeOptions& options_;
  Xy goal_{};
};

// A registered maze; tasks are named for it.
struct NamedMap {
  const char* name;
  Map map;
  std::int64_t size;  // 0: small, 1: medium, 2: large; from it follows the time limit
};
const std::array<NamedMap, 10>& NamedMaps();

// Registers an env for all maps and both rewards, as "<robot>_<map>[Dense]-<version>".
template <class Env>
bool RegisterMazes(const std::string& robot, const std::string& version, const std::string& description,
                   const std::array<std::int64_t, 3>& max_episode_steps) {  // by the map's size
  for (const NamedMap& named : NamedMaps()) {
    for (const bool is_dense : {false, true}) {
      Register<Env>({.id = robot + "_" + named.name + (is_dense ? "Dense-" : "-") + version,
                     .description = description,
                     .max_episode_steps = max_episode_steps[static_cast<std::size_t>(named.size)]},
                    typename Env::Options(named.map, is_dense));
    }
  }
  return true;
}

}  // namespace torchrl_pool::robotics

#endif  // TORCHRL_POOL_ENVS_ROBOTICS_MAZE_H_
