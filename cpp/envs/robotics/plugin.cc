#include "torchrl_pool/env.h"

// The releases whose numbers the tasks give.
TORCHRL_POOL_PLUGIN("robotics", "Gymnasium-Robotics " TRP_ROBOTICS_VERSION ", MuJoCo " TRP_MUJOCO_VERSION)
