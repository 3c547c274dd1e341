// What an episode follows from. Box2D's memory cannot be saved, nor bytes that claim to be it be checked, so
// a saved state says how the episode came about, and loading it plays it again. What is too long for that
// has no state: nothing that has no time limit fills memory.
#ifndef TORCHRL_POOL_ENVS_BOX2D_EPISODE_H_
#define TORCHRL_POOL_ENVS_BOX2D_EPISODE_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "torchrl_pool/error.h"
#include "torchrl_pool/rng.h"

namespace torchrl_pool::box2d {

template <class Action>
struct Episode {
  Rng rng;                               // as it was before the reset
  std::vector<std::int32_t> free_nodes;  // of the world before the reset, where it outlives episodes
  std::vector<Action> actions;
  bool is_too_long = false;  // they are not known any more

  void Begin(const Rng& stream) {
    rng = stream;
    actions.clear();
    is_too_long = false;
  }
  void Add(const Action& action) {
    is_too_long = is_too_long || actions.size() == kMostActions;
    if (is_too_long) {
      std::vector<Action>().swap(actions);
    } else {
      actions.push_back(action);
    }
  }
  template <class Visitor>
  void VisitState(Visitor& visit) {
    if (is_too_long && !Visitor::kReading) {
      throw Unsupported("an episode of more than 100,000 actions has no saved state: a reset begins another");
    }
    visit(rng, free_nodes, actions);
    if constexpr (Visitor::kReading) {
      if (actions.size() > kMostActions)
        throw InvalidArgument("corrupt saved state: it has too many actions");
      for (const Action& action : actions) {  // a step that is given other numbers takes seconds
        const auto is_finite = [](float number) { return std::isfinite(number); };
        if (!std::all_of(action.begin(), action.end(), is_finite)) {
          throw InvalidArgument("corrupt saved state: an action is not finite");
        }
      }
      is_too_long = false;
    }
  }

 private:
  static constexpr std::size_t kMostActions = 100'000;
};

}  // namespace torchrl_pool::box2d

#endif  // TORCHRL_POOL_ENVS_BOX2D_EPISODE_H_
