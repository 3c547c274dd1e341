// The bounds of the initial state: of all resets of an env, or of one, as in Gymnasium's
// reset(options={"low": …, "high": …}).
#ifndef TORCHRL_POOL_ENVS_CLASSIC_RESET_BOUNDS_H_
#define TORCHRL_POOL_ENVS_CLASSIC_RESET_BOUNDS_H_

#include <cmath>
#include <string>

#include "torchrl_pool/env.h"

namespace torchrl_pool::classic {

struct ResetBounds {
  double low, high;

  ResetBounds(double low, double high) : low(low), high(high) {}
  // For one reset: the env's own, of which the caller may change one or both.
  template <class Options>
    requires requires(const Options& options) { options.bounds; }
  explicit ResetBounds(const Options& options) : ResetBounds(options.bounds) {}

  template <class Visitor>
  void Visit(Visitor& visit) {
    visit("low", low, "lower bound of the initial state");
    visit("high", high, "upper bound of the initial state");
  }

  void Open() const {
    if (!(low <= high)) {
      throw InvalidArgument("low (" + std::to_string(low) + ") must not exceed high (" +
                            std::to_string(high) + ")");
    }
    if (!std::isfinite(high - low)) throw InvalidArgument("the range from low to high must be finite");
  }

  double Draw(Rng& rng) const { return rng.Uniform(low, high); }
};

}  // namespace torchrl_pool::classic

#endif  // TORCHRL_POOL_ENVS_CLASSIC_RESET_BOUNDS_H_
