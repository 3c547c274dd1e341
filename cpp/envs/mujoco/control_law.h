// What actuators get, computed from actions and from the simulation as it is: one expression for each
// control.
#ifndef TORCHRL_POOL_ENVS_MUJOCO_CONTROL_LAW_H_
#define TORCHRL_POOL_ENVS_MUJOCO_CONTROL_LAW_H_

#include <mujoco/mujoco.h>

#include <optional>
#include <string>
#include <vector>

#include "expression.h"
#include "fields.h"

namespace torchrl_pool::mujoco {

// A name in an expression is, in this order: `action`, `target`; `position`, `velocity` (of the actuator's
// joint); a gain, which is a `numeric` of the model; an array of mjData; an array of mjModel. Of gains and
// arrays with one number per actuator the name alone is the actuator's own.
//
// Shared by all envs of a configuration.
class ControlLaw {
 public:
  // One of the model's controls. A target is offset + scale * action.
  struct Control {
    int actuator = 0;
    std::optional<int> joint = std::nullopt;  // the hinge or slide that it moves
    std::size_t position = 0, velocity = 0;   // of the joint, in qpos and qvel
    double offset = 0, scale = 1;
    std::optional<Expression> expression = std::nullopt;  // none: the action itself
    bool has_target = false;
  };

  ControlLaw() = default;
  // `lines`: "EXPRESSION", for all controls that no other line is for, or "ACTUATOR = EXPRESSION". Throws
  // InvalidArgument, with the nearest name there is.
  ControlLaw(const mjModel& model, const std::vector<std::string>& lines);

  // Whether this is one of the first four.
  static bool IsWord(const std::string& name);

  std::vector<Control>& controls() { return controls_; }
  const std::vector<Control>& controls() const { return controls_; }
  // Whether controls are the actions themselves.
  bool is_plain() const { return num_numbers_ == 0; }
  // Whether it reads what MuJoCo derives from positions and velocities, which must be as new as these.
  bool reads_derived() const { return !derived_.empty(); }
  // What it reads so, of which parts may be as old as the last simulation step: in order.
  const std::vector<DataField>& derived() const { return derived_; }

  // Whether this gain is in an expression.
  bool Reads(const std::string& gain) const;

  // How many numbers Compute works on.
  std::size_t workspace() const { return num_numbers_ + depth_; }
  void Compute(const mjModel& model, const double* action, double* workspace, mjData* data) const;

 private:
  template <class Owner>
  struct Read {
    Field<Owner> field;
    std::size_t place;  // in the workspace
  };

  void Compile(const mjModel& model, const std::string& line, const std::string& text, Control* control);
  std::size_t Find(const mjModel& model, Control* control, const Expression::Name& name);
  template <class Owner>
  std::size_t Element(std::vector<Read<Owner>>* reads, const Field<Owner>& field,
                      std::optional<std::size_t> index, const Control& control);
  std::size_t OfJoint(const mjModel& model, const std::string& word, Control* control);

  std::vector<Control> controls_;
  std::vector<Read<mjData>> data_;
  std::vector<Read<mjModel>> model_;
  std::vector<DataField> derived_;
  // The workspace: actions, targets, what is read, and room for an expression's own numbers.
  std::size_t num_numbers_ = 0, depth_ = 0;
};

}  // namespace torchrl_pool::mujoco

#endif  // TORCHRL_POOL_ENVS_MUJOCO_CONTROL_LAW_H_
