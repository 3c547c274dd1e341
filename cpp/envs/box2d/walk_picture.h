// What a walk looks like: BipedalWalker's, and multiwalker's of SISL.
#ifndef TORCHRL_POOL_ENVS_BOX2D_WALK_PICTURE_H_
#define TORCHRL_POOL_ENVS_BOX2D_WALK_PICTURE_H_

#include <Box2D/Box2D.h>

#include <cstdint>
#include <vector>

#include "torchrl_pool/env.h"
#include "walker.h"

namespace torchrl_pool::box2d {

struct WalkPicture {
  static constexpr ImageSize kSize{400, 600};

  void Draw(std::uint8_t* rgb) const;

  const Walk& walk;
  std::vector<const Walker*> walkers;
  std::int64_t number;                             // since the reset, if every state is shown once
  double scroll;                                   // where in the world the view begins
  double scale = Walk::kScale;                     // pixels of a length
  double offset = 0;                               // pixels left of the world
  double reach = Walk::kViewWidth / Walk::kScale;  // of the view, beyond which nothing need be drawn
  const b2Body* package = nullptr;
  bool is_pettingzoos = false;  // who fills without smooth edges, and whose view may begin left of the world
};

}  // namespace torchrl_pool::box2d

#endif  // TORCHRL_POOL_ENVS_BOX2D_WALK_PICTURE_H_
