#include "simulation.h"

#include <algorithm>
#include <cmath>

#include "sleep.h"
#include "torchrl_pool/error.h"

namespace torchrl_pool::mujoco {
namespace {

// The places in buffers of delayed controls and sensors, which MuJoCo would follow out of its arrays.
void CheckHistory(const mjModel& model, const std::vector<double>& state) {
  if (model.nhistory == 0) return;
  std::vector<double> history(static_cast<std::size_t>(model.nhistory));
  mj_extractState(&model, state.data(), mjSTATE_INTEGRATION, history.data(), mjSTATE_HISTORY);
  const auto check = [&](int count, const int* sizes, const int* addresses) {
    for (int i = 0; i < count; ++i) {
      const int samples = sizes[2 * i];
      if (samples == 0) continue;
      const double place = history[static_cast<std::size_t>(addresses[i]) + 1];  // the user's number is first
      if (!(place >= 0 && place < samples) || place != std::floor(place))
        throw InvalidArgument("corrupt saved state: a value is out of its range");
    }
  };
  check(model.nactuator, model.actuator_history, model.actuator_historyadr);
  check(model.nsensor, model.sensor_history, model.sensor_historyadr);
}

}  // namespace

Simulation::Simulation(Model model, SharedData* shared)
    : model_(std::move(model)),
      shared_(shared),
      data_(shared ? Data(nullptr, mj_deleteData) : MakeData(*model_)) {
  if (!shared) return;
  // Now, not at the end of a Use, where nobody could be told that there is no memory.
  const auto size = static_cast<std::size_t>(mj_stateSize(model_.get(), mjSTATE_INTEGRATION));
  state_.reserve(size);
  mark_.reserve(size);
}

void Simulation::Begin() {
  if (!shared_) return;
  data_ = shared_->Take();
  if (!state_.empty()) mj_setState(&model(), data_.get(), state_.data(), mjSTATE_INTEGRATION);
}

void Simulation::End(Use::Keep keep, bool failed) {
  if (!shared_) return;
  if (failed) stepped_ = false;
  if (!failed && keep == Use::Keep::kState) SaveTo(&state_);
  if (broken_) {
    data_.reset();
  } else {
    shared_->GiveBack(std::move(data_));
  }
}

void Simulation::SaveTo(std::vector<double>* state) const {
  state->resize(static_cast<std::size_t>(mj_stateSize(model_.get(), mjSTATE_INTEGRATION)));
  mj_getState(model_.get(), data_.get(), state->data(), mjSTATE_INTEGRATION);
}

mjModel* Simulation::OwnModel() {
  if (!own_) {
    mjModel* copy = nullptr;
    Protect([&] { copy = mj_copyModel(nullptr, model_.get()); });
    if (!copy) throw std::bad_alloc();
    own_.reset(copy);
  }
  return own_.get();
}

void Simulation::ThrowWarnings() const {
  for (int i = 0; i < mjNWARNING; ++i) {
    const mjWarningStat& warning = data_->warning[i];
    if (warning.number == 0) continue;
    throw std::runtime_error(std::string("MuJoCo: ") +
                             mju_warningText(i, static_cast<std::size_t>(warning.lastinfo)));
  }
}

void Simulation::Reset(const std::vector<double>& qpos, const std::vector<double>& qvel) {
  Restart([&] {
    mj_resetData(&model(), data_.get());
    std::copy(qpos.begin(), qpos.end(), data_->qpos);
    std::copy(qvel.begin(), qvel.end(), data_->qvel);
    mj_forward(&model(), data_.get());
  });
}

void Simulation::Step(std::span<const float> control, std::int64_t num_steps) {
  std::copy(control.begin(), control.end(), data_->ctrl);
  Run([&] {
    for (std::int64_t i = 0; i < num_steps; ++i) mj_step(&model(), data_.get());
    mj_rnePostConstraint(&model(), data_.get());
  });
}

std::vector<double> Simulation::Save() const {
  std::vector<double> state;
  SaveTo(&state);
  SaveSleep(*model_, *data_, &state);
  return state;
}

void Simulation::Restore(const std::vector<double>& state) {
  const auto size = static_cast<std::size_t>(mj_stateSize(model_.get(), mjSTATE_INTEGRATION));
  if (state.size() != size + SleepSize(*model_)) throw InvalidArgument("the saved state is of another model");
  const std::span<const double> sleep = std::span(state).subspan(size);
  CheckSleep(*model_, sleep);
  CheckHistory(*model_, state);
  Restart([&] {
    mj_resetData(&model(), data_.get());
    mj_setState(&model(), data_.get(), state.data(), mjSTATE_INTEGRATION);
    mj_forward(&model(), data_.get());
    // Once more: mj_forward has written a warm start for the solver that the original has not seen.
    mj_setState(&model(), data_.get(), state.data(), mjSTATE_INTEGRATION);
    RestoreSleep(*model_, sleep, data_.get());  // mj_setState has woken all
  });
}

}  // namespace torchrl_pool::mujoco
