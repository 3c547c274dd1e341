// A task's reward in the colours of its pictures. Reference: _set_reward_colors in dm_control/suite/base.py,
// version 1.0.50.
#ifndef TORCHRL_POOL_ENVS_DM_CONTROL_REWARD_COLORS_H_
#define TORCHRL_POOL_ENVS_DM_CONTROL_REWARD_COLORS_H_

#include <mujoco/mujoco.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>

#include "physics.h"

namespace torchrl_pool::dm_control {

// Three materials go from their default colours to their highlights.
class RewardColors {
 public:
  // Throws InvalidArgument where the model has no such materials.
  explicit RewardColors(const mjModel& model) {
    for (std::size_t i = 0; i < materials_.size(); ++i) {
      const std::string name = kNames[i];
      materials_[i] = {.shown = Find(model, mjOBJ_MATERIAL, name.c_str()),
                       .plain = Find(model, mjOBJ_MATERIAL, (name + "_default").c_str()),
                       .highlight = Find(model, mjOBJ_MATERIAL, (name + "_highlight").c_str())};
    }
  }

  // Writes to mat_rgba. A reward that is no number leaves the default colours.
  void Show(double reward, mjModel* model) const {
    const double share = std::pow(reward > 0 ? std::min(reward, 1.0) : 0.0, 4.0);
    float* colors = model->mat_rgba;
    for (const Material& material : materials_) {
      for (int i = 0; i < 4; ++i) {
        colors[4 * material.shown + i] =
            static_cast<float>(share * static_cast<double>(colors[4 * material.highlight + i]) +
                               (1.0 - share) * static_cast<double>(colors[4 * material.plain + i]));
      }
    }
  }

 private:
  struct Material {
    int shown, plain, highlight;
  };

  static constexpr std::array kNames = {"self", "effector", "target"};
  std::array<Material, kNames.size()> materials_;
};

}  // namespace torchrl_pool::dm_control

#endif  // TORCHRL_POOL_ENVS_DM_CONTROL_REWARD_COLORS_H_
