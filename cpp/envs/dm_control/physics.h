// One simulation of the suite: mjData, and a model of which an env may change parts. Reference:
// dm_control/mujoco/engine.py, version 1.0.50.
#ifndef TORCHRL_POOL_ENVS_DM_CONTROL_PHYSICS_H_
#define TORCHRL_POOL_ENVS_DM_CONTROL_PHYSICS_H_

#include <mujoco/mujoco.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <utility>
#include <vector>

#include "library.h"
#include "model.h"
#include "torchrl_pool/error.h"

namespace torchrl_pool::dm_control {

using mujoco::Model;
using Vector = std::array<double, 3>;

inline Vector Between(const double* from, const double* to) {
  return {to[0] - from[0], to[1] - from[1], to[2] - from[2]};
}

// The number of a thing of the model; throws InvalidArgument where it has none of that name.
int Find(const mjModel& model, mjtObj kind, const char* name);
// Where a sensor's numbers begin in sensordata, a joint's in qpos, and in qvel.
int SensorAddress(const mjModel& model, const char* name);
int PositionAddress(const mjModel& model, const char* joint);
int VelocityAddress(const mjModel& model, const char* joint);

// Elements of an array, one after the other.
struct Part {
  std::int64_t first, count;
};

// Functions that simulate throw std::runtime_error, with MuJoCo's message, where MuJoCo reports an error. Its
// warnings are counted: see CheckWarnings.
class Physics {
 public:
  explicit Physics(Model shared);
  Physics(const Physics&) = delete;

  const mjModel& model() const { return model_; }
  const mjData& data() const { return *data_; }
  mjData& data() { return *data_; }
  const Model& shared() const { return shared_; }

  // Gives this env an array of the model for itself. Of its `size` elements a saved state holds those that
  // resets or steps change, and no others: what they would not put right again would outlast its episode.
  void Own(mjtNum* mjModel::* array, std::int64_t size, std::vector<Part> changing) {
    Own(array, size, std::move(changing), &owned_);
  }
  void Own(float* mjModel::* array, std::int64_t size, std::vector<Part> changing) {
    Own(array, size, std::move(changing), &owned_floats_);
  }
  // The model, for changes to such arrays.
  mjModel& own() { return model_; }

  const mjtNum* body_position(int body) const { return data_->xpos + 3 * body; }
  const mjtNum* body_frame(int body) const { return data_->xmat + 9 * body; }
  const mjtNum* geom_position(int geom) const { return data_->geom_xpos + 3 * geom; }
  const mjtNum* site_position(int site) const { return data_->site_xpos + 3 * site; }
  const mjtNum* sensor(int address) const { return data_->sensordata + address; }

  // To the model's initial state.
  void Reset();
  // Computes everything but what actuators do, whose controls mean nothing yet.
  void Forward();
  // Computes places and contacts only, and tells whether there are contacts.
  bool Touches();
  // Places things anew until there are none. Throws where that takes too long, as in a state in which parts
  // that do not move touch each other; dm_control goes on for ever.
  template <class Place>
  void UntilNothingTouches(Place&& place) {
    constexpr int kMostAttempts = 100'000;
    for (int attempt = 0; attempt < kMostAttempts; ++attempt) {
      place();
      if (!Touches()) return;
    }
    throw std::runtime_error("failed to find a configuration without contacts");
  }
  // Sensors of places, as far as places have been computed.
  void SensePlaces();
  // So many simulation steps, after which everything that depends on positions and velocities is up to date.
  void Step(std::int64_t count);

  // Throws where a simulation has diverged, or contacts do not fit into memory, since the last reset.
  void CheckWarnings() const;

  // What the next steps depend on, so that they equal the original's in every bit.
  template <class Visitor>
  void VisitState(Visitor& visit) {
    std::vector<mjtNum> state(static_cast<std::size_t>(mj_stateSize(&model_, mjSTATE_INTEGRATION)));
    if constexpr (!Visitor::kReading) mj_getState(&model_, data_.get(), state.data(), mjSTATE_INTEGRATION);
    VisitNumbers(visit, &state);
    for (auto& owned : owned_) VisitChanging(visit, &owned);
    for (auto& owned : owned_floats_) VisitChanging(visit, &owned);
    if constexpr (Visitor::kReading) Restore(state);
  }

 private:
  template <class T>
  struct Owned {
    std::vector<T> numbers;  // the model points there
    std::vector<Part> changing;
  };

  template <class T>
  void Own(T* mjModel::* array, std::int64_t size, std::vector<Part> changing, std::vector<Owned<T>>* owned) {
    auto& own = owned->emplace_back();
    own.numbers.assign(model_.*array, model_.*array + size);
    own.changing = std::move(changing);
    model_.*array = own.numbers.data();
  }

  template <class Visitor, class T>
  static void VisitChanging(Visitor& visit, Owned<T>* owned) {
    for (const Part& part : owned->changing) {
      const auto begin = owned->numbers.begin() + part.first;
      std::vector<T> numbers(begin, begin + part.count);
      VisitNumbers(visit, &numbers);
      std::copy(numbers.begin(), numbers.end(), begin);
    }
  }

  template <class Visitor, class T>
  static void VisitNumbers(Visitor& visit, std::vector<T>* numbers) {
    if constexpr (Visitor::kReading) {
      std::vector<T> read;
      visit(read);
      if (read.size() != numbers->size()) throw InvalidArgument("the saved state is of another model");
      if (!std::all_of(read.begin(), read.end(), [](T x) { return std::isfinite(x); })) {
        throw InvalidArgument("corrupt saved state: a value is out of its range");
      }
      *numbers = std::move(read);
    } else {
      visit(*numbers);
    }
  }

  void Restore(const std::vector<mjtNum>& state);

  template <class Function>
  void Run(Function&& function);

  Model shared_;
  mjModel model_;  // shallow: the shared one's arrays, but for those of its own
  std::vector<Owned<mjtNum>> owned_;
  std::vector<Owned<float>> owned_floats_;
  std::unique_ptr<mjData, void (*)(mjData*)> data_;
  bool broken_ = false;  // an error has left the data half-written
};

}  // namespace torchrl_pool::dm_control

#endif  // TORCHRL_POOL_ENVS_DM_CONTROL_PHYSICS_H_
