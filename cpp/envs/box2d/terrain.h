// What the bipedal walker walks on.
#ifndef TORCHRL_POOL_ENVS_BOX2D_TERRAIN_H_
#define TORCHRL_POOL_ENVS_BOX2D_TERRAIN_H_

#include "bipedal_walker.h"
#include "torchrl_pool/rng.h"

namespace torchrl_pool::box2d {

void GenerateTerrain(b2World* world, Rng* rng, bool hardcore, Walk* scene);
void GenerateClouds(Rng* rng, Walk* scene);

}  // namespace torchrl_pool::box2d

#endif  // TORCHRL_POOL_ENVS_BOX2D_TERRAIN_H_
