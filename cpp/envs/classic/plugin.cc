#include "torchrl_pool/env.h"

TORCHRL_POOL_PLUGIN("classic", "1.0")
