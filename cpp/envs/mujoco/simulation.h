// One simulation: an mjData that never goes wrong silently.
#ifndef TORCHRL_POOL_ENVS_MUJOCO_SIMULATION_H_
#define TORCHRL_POOL_ENVS_MUJOCO_SIMULATION_H_

#include <mujoco/mujoco.h>

#include <exception>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "library.h"
#include "model.h"
#include "shared_data.h"

namespace torchrl_pool::mujoco {

// Every member throws std::runtime_error, with MuJoCo's message, where MuJoCo reports an error, or a warning
// such as a divergence (which MuJoCo answers with a silent reset in the middle of the episode). After that,
// Reset or Restore starts afresh.
//
// It has an mjData of its own, or shares some with others: then data() is there while a Use lives.
class Simulation {
 public:
  explicit Simulation(Model model, SharedData* shared = nullptr);

  // All that needs the data happens within one. An exception leaves a state that shares its data as it was.
  class Use {
   public:
    enum class Keep { kState, kNothing };
    explicit Use(Simulation& simulation, Keep keep = Keep::kState) : simulation_(simulation), keep_(keep) {
      simulation_.Begin();
    }
    ~Use() { simulation_.End(keep_, std::uncaught_exceptions() > exceptions_); }
    Use(const Use&) = delete;

   private:
    Simulation& simulation_;
    const Keep keep_;
    const int exceptions_ = std::uncaught_exceptions();
  };

  // Before the last simulation step of a step: what Recompute begins with.
  void Mark() {
    if (!shared_) return;
    SaveTo(&mark_);
    stepped_ = true;
  }
  // What MuJoCo derives from the state, as the last step or reset has left it. Changes the state: within a
  // Use that keeps nothing. The function makes the last simulation step again.
  template <class Function>
  void Recompute(Function&& last_step) {
    if (!shared_) return;
    if (stepped_) mj_setState(&model(), data_.get(), mark_.data(), mjSTATE_INTEGRATION);
    Run([&] { stepped_ ? last_step() : mj_forward(&model(), data_.get()); });
  }

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
    if (broken_ && !shared_) data_ = MakeData(*model_);
    stepped_ = false;
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

  void Begin();
  void End(Use::Keep keep, bool failed);
  void SaveTo(std::vector<double>* state) const;

  Model model_;
  std::unique_ptr<mjModel, void (*)(mjModel*)> own_{nullptr, mj_deleteModel};
  SharedData* const shared_;  // null: the data is its own
  Data data_;
  bool broken_ = false;               // an error has left the data half-written
  std::vector<double> state_, mark_;  // of one that shares: what it is in, what its last Mark was in
  bool stepped_ = false;              // whether a step came after the last reset
};

}  // namespace torchrl_pool::mujoco

#endif  // TORCHRL_POOL_ENVS_MUJOCO_SIMULATION_H_
