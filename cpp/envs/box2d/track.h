// The road of car racing: a circle bent by random checkpoints.
#ifndef TORCHRL_POOL_ENVS_BOX2D_TRACK_H_
#define TORCHRL_POOL_ENVS_BOX2D_TRACK_H_

#include <vector>

#include "car_racing.h"
#include "torchrl_pool/rng.h"

namespace torchrl_pool::box2d {

struct TrackPoint {
  double alpha, beta, x, y;  // beta: the way ahead
};

// Draws until there is one that closes.
std::vector<TrackPoint> DrawTrack(Rng* rng);
// The road along the track, one tile for each point.
void LayRoad(b2World* world, const std::vector<TrackPoint>& track, Race* race);

}  // namespace torchrl_pool::box2d

#endif  // TORCHRL_POOL_ENVS_BOX2D_TRACK_H_
