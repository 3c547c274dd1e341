// How a file of worlds ends: in the table of its tasks.
#ifndef TORCHRL_POOL_ENVS_MINIGRID_TASK_H_
#define TORCHRL_POOL_ENVS_MINIGRID_TASK_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "mission.h"
#include "world.h"

namespace torchrl_pool::minigrid {

// Tasks of one kind, which differ in numbers.
struct Kind {
  struct Task {
    std::string id;
    std::function<std::unique_ptr<World>()> make;
  };

  std::string description;
  Missions missions;
  std::vector<Task> tasks;
  int actions = kActions;  // the first of all
};

// Makes the World of a task: New<Empty>(5, false)
template <class Kind, class... Arguments>
std::function<std::unique_ptr<World>()> New(Arguments... arguments) {
  return [=] { return std::make_unique<Kind>(arguments...); };
}

// Registers the tasks; the value has no meaning but to initialise a global.
bool RegisterKind(Kind kind);

}  // namespace torchrl_pool::minigrid

#endif  // TORCHRL_POOL_ENVS_MINIGRID_TASK_H_
