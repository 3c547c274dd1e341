#include "ant.h"

namespace torchrl_pool::mujoco {
namespace {

const TaskInfo kTask{.id = "Ant-v5",
                     .description = "walk forwards on four legs",
                     .max_episode_steps = 1000,
                     .reward_threshold = 6000};
const bool registered = Register<Ant<5>>(kTask) && Register<Ant<4>>(Version4(kTask));

}  // namespace
}  // namespace torchrl_pool::mujoco
