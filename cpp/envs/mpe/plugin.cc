#include "torchrl_pool/env.h"

// The releases whose numbers the tasks give.
TORCHRL_POOL_PLUGIN("mpe", "mpe2 1.1.1")
