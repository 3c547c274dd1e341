#include "torchrl_pool/env.h"

// The releases whose numbers the tasks give.
TORCHRL_POOL_PLUGIN("toy_text", "Gymnasium 1.4.0")
