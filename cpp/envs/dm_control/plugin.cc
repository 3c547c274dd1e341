#include "torchrl_pool/env.h"

// The releases whose numbers the tasks give.
TORCHRL_POOL_PLUGIN("dm_control", "dm_control " TRP_DM_CONTROL_VERSION ", MuJoCo " TRP_MUJOCO_VERSION)
