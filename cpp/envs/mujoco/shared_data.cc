#include "shared_data.h"

#include <algorithm>
#include <iterator>
#include <new>

#include "library.h"

namespace torchrl_pool::mujoco {

Data MakeData(const mjModel& model) {
  mjData* data = nullptr;
  Protect([&] { data = mj_makeData(&model); });
  if (!data) throw std::bad_alloc();
  return Data(data, mj_deleteData);
}

bool SharedData::Suits(const mjModel& model) {
  // Bodies that sleep, solvers that go on from their last step, plugins' own memory, late sensors.
  return !(model.opt.enableflags & (mjENBL_SLEEP | mjENBL_IPC)) && model.nplugin == 0 &&
         model.nhistory == 0 && model.nflex == 0;
}

bool SharedData::Suits(std::string_view array) {
  constexpr std::string_view kArrays[] = {"qpos",
                                          "qvel",
                                          "act",
                                          "ctrl",
                                          "qacc",
                                          "act_dot",
                                          "xfrc_applied",
                                          "qfrc_applied",
                                          "eq_active",
                                          "mocap_pos",
                                          "mocap_quat",
                                          "userdata",
                                          "time",
                                          "sensordata",
                                          "qacc_warmstart",
                                          "xpos",
                                          "xquat",
                                          "xmat",
                                          "xipos",
                                          "ximat",
                                          "xanchor",
                                          "xaxis",
                                          "geom_xpos",
                                          "geom_xmat",
                                          "site_xpos",
                                          "site_xmat",
                                          "cam_xpos",
                                          "cam_xmat",
                                          "light_xpos",
                                          "light_xdir",
                                          "subtree_com",
                                          "cdof",
                                          "cinert",
                                          "cvel",
                                          "ten_length",
                                          "ten_velocity",
                                          "ncon",
                                          "qfrc_bias",
                                          "qfrc_passive",
                                          "actuator_length",
                                          "qfrc_smooth",
                                          "qacc_smooth",
                                          "cacc",
                                          "cfrc_int",
                                          "cfrc_ext",
                                          "actuator_force",
                                          "energy",
                                          "qfrc_actuator",
                                          "subtree_linvel",
                                          "subtree_angmom",
                                          "actuator_velocity",
                                          "qfrc_constraint"};
  return std::find(std::begin(kArrays), std::end(kArrays), array) != std::end(kArrays);
}

SharedData::~SharedData() {
  for (Place& place : places_) Data(place.data, mj_deleteData);
}

SharedData::Place& SharedData::OfThread() {
  static std::atomic<std::size_t> threads{0};
  thread_local const std::size_t number = threads++;
  return places_[number % places_.size()];
}

Data SharedData::Take() {
  mjData* const data = OfThread().data.exchange(nullptr);
  return data ? Data(data, mj_deleteData) : MakeData(*model_);
}

void SharedData::GiveBack(Data data) { data.reset(OfThread().data.exchange(data.release())); }

}  // namespace torchrl_pool::mujoco
