#include "torchrl_pool/env.h"

// The releases whose numbers the tasks give.
TORCHRL_POOL_PLUGIN("box2d", "Gymnasium 1.4.0, Box2D 2.3.10")
