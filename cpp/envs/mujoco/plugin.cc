#include "torchrl_pool/env.h"

TORCHRL_POOL_PLUGIN("mujoco", "0.1.0")
