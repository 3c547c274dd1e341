#include "torchrl_pool/env.h"

TORCHRL_POOL_PLUGIN("minigrid", "1.0")
