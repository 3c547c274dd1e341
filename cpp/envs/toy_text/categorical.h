// A draw from a list of probabilities, as Gymnasium's toy texts make it.
#ifndef TORCHRL_POOL_ENVS_TOY_TEXT_CATEGORICAL_H_
#define TORCHRL_POOL_ENVS_TOY_TEXT_CATEGORICAL_H_

#include <initializer_list>
#include <vector>

#include "torchrl_pool/rng.h"

namespace torchrl_pool::toy_text {

// gymnasium.envs.toy_text.utils.categorical_sample: one random() even where there is nothing to choose. Sums
// in order, and rounding may leave the last one below the draw: then it is index 0, as NumPy's argmax has it.
class Categorical {
 public:
  template <class Probabilities>
  explicit Categorical(const Probabilities& probabilities) {
    double sum = 0;
    for (const double probability : probabilities) sums_.push_back(sum += probability);
  }
  Categorical(std::initializer_list<double> probabilities)
      : Categorical(std::vector<double>(probabilities)) {}

  std::int64_t Draw(Rng& rng) const {
    const double random = rng.Random();
    for (std::size_t i = 0; i < sums_.size(); ++i) {
      if (sums_[i] > random) return static_cast<std::int64_t>(i);
    }
    return 0;
  }

 private:
  std::vector<double> sums_;
};

}  // namespace torchrl_pool::toy_text

#endif  // TORCHRL_POOL_ENVS_TOY_TEXT_CATEGORICAL_H_
