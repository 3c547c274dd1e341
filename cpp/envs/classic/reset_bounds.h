// The bounds of the initial state, which Gymnasium takes as reset(options={"low": …, "high": …}).
#ifndef TORCHRL_POOL_ENVS_CLASSIC_RESET_BOUNDS_H_
#define TORCHRL_POOL_ENVS_CLASSIC_RESET_BOUNDS_H_

#include <string>

#include "torchrl_pool/env.h"

namespace torchrl_pool::classic {

struct ResetBounds {
  double low, high;

  template <class Visitor>
  void Visit(Visitor& visit) {
    visit("low", low, "lower bound of the initial state (Gymnasium: a reset option)");
    visit("high", high, "upper bound of the initial state (Gymnasium: a reset option)");
  }

  void Check() const {
    if (!(low <= high)) {
      throw InvalidArgument("low (" + std::to_string(low) + ") must not exceed high (" +
                            std::to_string(high) + ")");
    }
  }

  double Draw(Rng& rng) const { return rng.Uniform(low, high); }
};

}  // namespace torchrl_pool::classic

#endif  // TORCHRL_POOL_ENVS_CLASSIC_RESET_BOUNDS_H_
