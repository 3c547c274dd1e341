// What a reset draws at random, each as one line: "qpos += uniform(-0.1, 0.1)", "body_mass:torso *= normal(1,
// 0.1)".
#ifndef TORCHRL_POOL_ENVS_MUJOCO_RANDOM_CHANGE_H_
#define TORCHRL_POOL_ENVS_MUJOCO_RANDOM_CHANGE_H_

#include <optional>
#include <string>
#include <vector>

#include "fields.h"
#include "torchrl_pool/rng.h"

namespace torchrl_pool::mujoco {

class RandomChange {
 public:
  // Throws InvalidArgument with what was expected.
  RandomChange(const mjModel& model, const std::string& line);

  // What it changes: an input of mjData, or an array of mjModel. The other is empty.
  const std::optional<DataField>& data() const { return data_; }
  const std::optional<ModelField>& model() const { return model_; }

  // One number per element, in order.
  std::vector<double> Sample(Rng& rng) const;
  // What becomes of these values with those numbers.
  void Apply(const std::vector<double>& numbers, double* values) const;

 private:
  enum class Change { kSet, kAdd, kScale };
  enum class Kind { kUniform, kLogUniform, kNormal };

  std::optional<DataField> data_;
  std::optional<ModelField> model_;
  Change change_;
  Kind kind_;
  double first_, second_;
};

}  // namespace torchrl_pool::mujoco

#endif  // TORCHRL_POOL_ENVS_MUJOCO_RANDOM_CHANGE_H_
