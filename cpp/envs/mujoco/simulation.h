// One simulation: an mjData that never goes wrong silently.
#ifndef TORCHRL_POOL_ENVS_MUJOCO_SIMULATION_H_
#define TORCHRL_POOL_ENVS_MUJOCO_SIMULATION_H_

#include <mujoco/mujoco.h>

#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "library.h"
#include "model.h"

namespace torchrl_pool::mujoco {

// Every member throws std::runtime_error, with MuJoCo's message, where MuJoCo reports an error, or a warning
// such as a divergence (which MuJoCo answers with a silent reset in the middle of the episode). After that,
// Reset or Restore starts afresh.
class Simulation {
 public:
  explicit Simulation(Model model);

  const mjModel& model() const { return own_ ? *own_ : *model_; }
  // A copy of the model that is this simulation's alone, made when it is first asked for.
  mjModel* OwnModel();
  const mjData& data() const { return *data_; }
  mjData* mutable_data() { return data_.get(); }

  // To the model's initial state, changed to these positions and velocities, everything computed.
  void Reset(const std::vector<double>& qpos, const std::vector<double>& qvel);

  // Calls MuJoCo. The function must own nothing that needs a destructor: an error jumps over it.
  template <class Function>
  void Run(Function&& function) {
    broken_ = true;
    Protect(function);
    ThrowWarnings();
    broken_ = false;
  }
  // The same for what makes the data anew, after an error too.
  template <class Function>
  void Restart(Function&& function) {
    if (broken_) Remake();
    Run(function);
  }

  // Applies one control for a number of simulation steps, then computes the contact forces on the bodies.
  void Step(std::span<const float> control, std::int64_t num_steps);

  template <class Visitor>
  void VisitState(Visitor& visit) {
    std::vector<double> state = Save();
    visit(state);
    if constexpr (Visitor::kReading) Restore(state);
  }

 private:
  // What the next steps depend on (mjSTATE_INTEGRATION, and who sleeps), so that they equal the original's in
  // every bit. Quantities that MuJoCo derives from it are computed anew.
  std::vector<double> Save() const;
  void Restore(const std::vector<double>& state);

  void ThrowWarnings() const;
  void Remake();

  Model model_;
  std::unique_ptr<mjModel, void (*)(mjModel*)> own_{nullptr, mj_deleteModel};
  std::unique_ptr<mjData, void (*)(mjData*)> data_;
  bool broken_ = false;  // an error has left the data half-written
};

}  // namespace torchrl_pool::mujoco

#endif  // TORCHRL_POOL_ENVS_MUJOCO_SIMULATION_H_
