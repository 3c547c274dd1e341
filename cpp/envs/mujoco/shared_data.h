// The mjData that simulations of one model take in turn, each with a state of its own: about one per thread,
// in place of one per simulation, which is a hundred times as large as a state and leaves the caches.
#ifndef TORCHRL_POOL_ENVS_MUJOCO_SHARED_DATA_H_
#define TORCHRL_POOL_ENVS_MUJOCO_SHARED_DATA_H_

#include <mujoco/mujoco.h>

#include <array>
#include <atomic>
#include <memory>
#include <string_view>

#include "model.h"

namespace torchrl_pool::mujoco {

using Data = std::unique_ptr<mjData, void (*)(mjData*)>;
Data MakeData(const mjModel& model);

// Any thread may call its members.
class SharedData {
 public:
  explicit SharedData(Model model) : model_(std::move(model)) {}
  ~SharedData();
  SharedData(const SharedData&) = delete;

  // Whether simulations of the model can share: nothing outlives a step but mjSTATE_INTEGRATION.
  static bool Suits(const mjModel& model);
  // Whether each step and each reset computes all of this array of mjData, so that nothing of another
  // simulation is left in it.
  static bool Suits(std::string_view array);

  // What this thread has given back last, or what nobody uses; its content is anything valid.
  Data Take();
  void GiveBack(Data data);

 private:
  struct alignas(64) Place {
    std::atomic<mjData*> data{nullptr};
  };
  Place& OfThread();

  const Model model_;
  std::array<Place, 64> places_;  // of threads, by their number; of one too many it makes and frees its own
};

}  // namespace torchrl_pool::mujoco

#endif  // TORCHRL_POOL_ENVS_MUJOCO_SHARED_DATA_H_
