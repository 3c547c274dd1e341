#include "torchrl_pool/env.h"

// The release whose numbers the task gives.
TORCHRL_POOL_PLUGIN("sisl", "pettingzoo 1.27.0")
