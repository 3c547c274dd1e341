#include "torchrl_pool/env.h"

// The releases whose numbers the tasks give.
TORCHRL_POOL_PLUGIN("mujoco", "MuJoCo " TRP_MUJOCO_VERSION ", Gymnasium 1.4.0")
