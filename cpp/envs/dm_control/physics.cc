#include "physics.h"

#include <new>
#include <stdexcept>
#include <string>

namespace torchrl_pool::dm_control {
namespace {

mjData* MakeData(const mjModel& model) {
  mjData* data = nullptr;
  mujoco::Protect([&] { data = mj_makeData(&model); });
  if (!data) throw std::bad_alloc();
  return data;
}

// While this lives, the actuators of a model do nothing.
class WithoutActuation {
 public:
  explicit WithoutActuation(mjModel* model) : flags_(model->opt.disableflags), before_(flags_) {
    flags_ |= mjDSBL_ACTUATION;
  }
  ~WithoutActuation() { flags_ = before_; }
  WithoutActuation(const WithoutActuation&) = delete;

 private:
  int& flags_;
  const int before_;
};

}  // namespace

int Find(const mjModel& model, mjtObj kind, const char* name) {
  const int id = mj_name2id(&model, kind, name);
  if (id < 0)
    throw InvalidArgument(std::string("the model has no ") + mju_type2Str(kind) + " '" + name + "'");
  return id;
}
int SensorAddress(const mjModel& model, const char* name) {
  return model.sensor_adr[Find(model, mjOBJ_SENSOR, name)];
}
int PositionAddress(const mjModel& model, const char* joint) {
  return model.jnt_qposadr[Find(model, mjOBJ_JOINT, joint)];
}
int VelocityAddress(const mjModel& model, const char* joint) {
  return model.jnt_dofadr[Find(model, mjOBJ_JOINT, joint)];
}

Physics::Physics(Model shared)
    : shared_(std::move(shared)), model_(*shared_), data_(MakeData(model_), mj_deleteData) {}

template <class Function>
void Physics::Run(Function&& function) {
  broken_ = true;
  mujoco::Protect(function);
  broken_ = false;
}

void Physics::Reset() {
  if (broken_) data_.reset(MakeData(model_));
  Run([this] { mj_resetData(&model_, data_.get()); });
  Forward();
}

void Physics::Forward() {
  const WithoutActuation without(&model_);
  Run([this] { mj_forward(&model_, data_.get()); });
}

bool Physics::Touches() {
  Run([this] { mj_fwdPosition(&model_, data_.get()); });
  return data_->ncon > 0;
}

void Physics::SensePlaces() {
  Run([this] { mj_sensorPos(&model_, data_.get()); });
}

// mj_step1 has been called for the present state already, unless the integrator calls it itself.
void Physics::Step(std::int64_t count) {
  Run([&] {
    if (model_.opt.integrator != mjINT_RK4) {
      mj_step2(&model_, data_.get());
      --count;
    }
    for (std::int64_t i = 0; i < count; ++i) mj_step(&model_, data_.get());
    mj_step1(&model_, data_.get());
  });
}

void Physics::CheckWarnings() const {
  for (int i = 0; i < mjNWARNING; ++i) {
    const mjWarningStat& warning = data_->warning[i];
    if (warning.number == 0) continue;
    throw std::runtime_error(std::string("MuJoCo: ") +
                             mju_warningText(i, static_cast<std::size_t>(warning.lastinfo)));
  }
}

void Physics::Restore(const std::vector<mjtNum>& state) {
  if (broken_) data_.reset(MakeData(model_));
  Run([&] {
    mj_resetData(&model_, data_.get());
    mj_setState(&model_, data_.get(), state.data(), mjSTATE_INTEGRATION);
    mj_step1(&model_, data_.get());
  });
  CheckWarnings();
}

}  // namespace torchrl_pool::dm_control
