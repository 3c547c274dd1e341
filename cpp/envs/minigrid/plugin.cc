#include "torchrl_pool/env.h"

TORCHRL_POOL_PLUGIN("minigrid", "minigrid 3.2.0")
