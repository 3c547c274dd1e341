#include "torchrl_pool/env.h"

// The releases whose numbers the tasks give.
TORCHRL_POOL_PLUGIN("atari", "ALE " TRP_ALE_VERSION)
