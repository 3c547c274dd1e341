#include "torchrl_pool/env.h"

TORCHRL_POOL_PLUGIN("box2d", "1.0")
