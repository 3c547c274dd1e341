// What an episode follows from. Box2D's memory cannot be saved, nor bytes that claim to be it be checked, so
// a saved state says how the episode came about, and loading it plays it again.
#ifndef TORCHRL_POOL_ENVS_BOX2D_EPISODE_H_
#define TORCHRL_POOL_ENVS_BOX2D_EPISODE_H_

#include <cstdint>
#include <vector>

#include "torchrl_pool/rng.h"

namespace torchrl_pool::box2d {

template <class Action>
struct Episode {
  bool begun = false;
  Rng rng;                               // as it was before the reset
  std::vector<std::int32_t> free_nodes;  // of the world before the reset, where it outlives episodes
  std::vector<Action> actions;

  void Begin(const Rng& stream) {
    begun = true;
    rng = stream;
    actions.clear();
  }
  template <class Visitor>
  void VisitState(Visitor& visit) {
    visit(begun, rng, free_nodes, actions);
  }
};

}  // namespace torchrl_pool::box2d

#endif  // TORCHRL_POOL_ENVS_BOX2D_EPISODE_H_
