#include "torchrl_pool/env.h"

TORCHRL_POOL_PLUGIN("toy_text", "1.0")
