// A robot's model with a maze around it.
#ifndef TORCHRL_POOL_ENVS_ROBOTICS_MAZE_MODEL_H_
#define TORCHRL_POOL_ENVS_ROBOTICS_MAZE_MODEL_H_

#include <fstream>
#include <iterator>
#include <string>

#include "gymnasium_env.h"
#include "maze.h"

namespace torchrl_pool::robotics {

// The text of the robot's model, with the maze in it.
inline std::string ModelWithMaze(const mujoco::GymnasiumOptions& robot, const Maze& maze) {
  const std::string path = robot.ModelPath();
  if (mujoco::IsXml(path)) return maze.AddTo(path);
  std::ifstream file(path);
  if (!file) throw FileNotFound("File " + path + " does not exist");
  return maze.AddTo({std::istreambuf_iterator<char>(file), {}});
}

}  // namespace torchrl_pool::robotics

#endif  // TORCHRL_POOL_ENVS_ROBOTICS_MAZE_MODEL_H_
