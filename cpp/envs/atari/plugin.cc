#include "torchrl_pool/env.h"

TORCHRL_POOL_PLUGIN("atari", "1.0")
