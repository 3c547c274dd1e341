#include "ant.h"

namespace torchrl_pool::mujoco {
namespace {

const TaskInfo kAnt{.id = "Ant-v5",
                    .description = "walk forwards on four legs",
                    .max_episode_steps = 1000,
                    .reward_threshold = 6000};
const bool registered = Register<Ant<5>>(kAnt) && Register<Ant<4>>(Version4(kAnt));

}  // namespace
}  // namespace torchrl_pool::mujoco
