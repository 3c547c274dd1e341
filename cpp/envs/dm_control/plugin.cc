#include "torchrl_pool/env.h"

TORCHRL_POOL_PLUGIN("dm_control", "0.1.0")
