#include "control_law.h"

#include <algorithm>
#include <iterator>
#include <string_view>

#include "torchrl_pool/error.h"

namespace torchrl_pool::mujoco {
namespace {

constexpr const char* kWords[] = {"action", "target", "position", "velocity"};

bool Contains(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// An actuator's name, or its number where it has none.
std::string ActuatorName(const mjModel& model, int actuator) {
  const char* name = mj_id2name(&model, mjOBJ_ACTUATOR, actuator);
  return name && *name ? std::string("'") + name + "'" : std::to_string(actuator);
}

// By its name, as in fields, or else by its number.
int FindActuator(const mjModel& model, const std::string& name) {
  if (const int id = mj_name2id(&model, mjOBJ_ACTUATOR, name.c_str()); id >= 0) return id;
  if (!name.empty() && name.size() < 7 &&
      std::all_of(name.begin(), name.end(), [](char c) { return c >= '0' && c <= '9'; }) &&
      std::stoi(name) < model.nactuator) {
    return std::stoi(name);
  }
  return FindThing(model, name, mjOBJ_ACTUATOR, name);
}

// Where "ACTUATOR = EXPRESSION" is parted; npos: it is an expression alone. Names in quotes may hold signs.
std::size_t Assignment(const std::string& line) {
  std::size_t place = 0;
  for (; place < line.size() && line[place] != '='; ++place) {
    if (line[place] != '\'' && line[place] != '"') continue;
    const std::size_t end = line.find(line[place], place + 1);
    if (end != std::string::npos) place = end;  // else it is a part of a name
  }
  if (place == line.size()) return std::string::npos;
  const bool compares =
      line.substr(place + 1, 1) == "=" ||
      (place > 0 && std::string_view("<>!").find(line[place - 1]) != std::string_view::npos);
  return compares ? std::string::npos : place;
}

std::string Unquoted(const std::string& name) {
  const bool is_quoted =
      name.size() > 1 && name.front() == name.back() && (name.front() == '\'' || name.front() == '"');
  return is_quoted ? name.substr(1, name.size() - 2) : name;
}

}  // namespace

bool ControlLaw::IsWord(const std::string& name) {
  return std::find(std::begin(kWords), std::end(kWords), name) != std::end(kWords);
}

ControlLaw::ControlLaw(const mjModel& model, const std::vector<std::string>& lines) {
  controls_.resize(static_cast<std::size_t>(model.nu));
  for (int actuator = 0; actuator < model.nactuator; ++actuator) {
    const int joint = model.actuator_trnid[2 * actuator];
    const bool moves_joint = model.actuator_trntype[actuator] == mjTRN_JOINT &&
                             model.actuator_ctrlnum[actuator] == 1 &&
                             (model.jnt_type[joint] == mjJNT_HINGE || model.jnt_type[joint] == mjJNT_SLIDE);
    for (int i = 0; i < model.actuator_ctrlnum[actuator]; ++i) {
      Control& control = controls_[static_cast<std::size_t>(model.actuator_ctrladr[actuator] + i)];
      control.actuator = actuator;
      if (!moves_joint) continue;
      control.joint = joint;
      control.position = static_cast<std::size_t>(model.jnt_qposadr[joint]);
      control.velocity = static_cast<std::size_t>(model.jnt_dofadr[joint]);
    }
  }
  if (lines.empty()) return;
  num_numbers_ = 2 * controls_.size();
  const std::string* for_all = nullptr;
  for (const std::string& line : lines) {
    const std::size_t assignment = Assignment(line);
    if (assignment == std::string::npos) {
      if (for_all)
        throw InvalidArgument("control: '" + *for_all + "' and '" + line + "' are for all actuators");
      for_all = &line;
      continue;
    }
    int actuator = 0;
    try {
      const std::string name = Trimmed(line.substr(0, assignment));
      const bool is_known = mj_name2id(&model, mjOBJ_ACTUATOR, name.c_str()) >= 0;
      actuator = FindActuator(model, is_known ? name : Unquoted(name));
    } catch (const InvalidArgument& error) {
      throw InvalidArgument(std::string("control: ") + error.what());
    }
    for (Control& control : controls_) {
      if (control.actuator != actuator) continue;
      if (control.expression) {
        throw InvalidArgument("control: two lines for the actuator " + ActuatorName(model, actuator));
      }
      Compile(model, line, line.substr(assignment + 1), &control);
    }
  }
  for (Control& control : controls_) {
    if (for_all && !control.expression) Compile(model, *for_all, *for_all, &control);
  }
}

void ControlLaw::Compile(const mjModel& model, const std::string& line, const std::string& text,
                         Control* control) {
  try {
    control->expression.emplace(text,
                                [&](const Expression::Name& name) { return Find(model, control, name); });
  } catch (const InvalidArgument& error) {
    throw InvalidArgument("control: '" + line + "': " + error.what());
  }
  depth_ = std::max(depth_, control->expression->depth());
}

std::size_t ControlLaw::Find(const mjModel& model, Control* control, const Expression::Name& name) {
  const auto& [word, part, index] = name;
  const std::string whole = part ? word + ":" + *part : word;
  if (IsWord(word)) {
    if (index || (part && word != "action"))
      throw InvalidArgument("'" + word + "' is a single number, without parts");
    if (part) {
      const int actuator = FindActuator(model, *part);
      if (model.actuator_ctrlnum[actuator] == 1)
        return static_cast<std::size_t>(model.actuator_ctrladr[actuator]);
      throw InvalidArgument("the actuator '" + *part + "' has not one control");
    }
    if (word != "action") return OfJoint(model, word, control);
    return static_cast<std::size_t>(control - controls_.data());
  }
  const std::vector<std::string> of_data = ArrayNames<mjData>(), of_model = ArrayNames<mjModel>();
  const std::vector<std::string> gains = NamesOf(model, mjOBJ_NUMERIC);
  if (!part && Contains(gains, word))
    return Element(&model_, ModelField(model, "numeric_data:" + word), index, *control);
  if (Contains(of_data, word)) return Element(&data_, DataField(model, whole), index, *control);
  if (Contains(of_model, word)) return Element(&model_, ModelField(model, whole), index, *control);
  std::vector<std::string> names(std::begin(kWords), std::end(kWords));
  for (const auto* more : {&gains, &of_data, &of_model})
    names.insert(names.end(), more->begin(), more->end());
  throw InvalidArgument("there is no '" + word + "'" + Suggestion(word, names) +
                        ": neither a gain nor an array of mjData or mjModel");
}

std::size_t ControlLaw::OfJoint(const mjModel& model, const std::string& word, Control* control) {
  if (!control->joint) {
    throw InvalidArgument("the actuator " + ActuatorName(model, control->actuator) +
                          " moves no hinge or slide: it has no '" + word + "'");
  }
  if (word == "target") {
    control->has_target = true;
    return controls_.size() + static_cast<std::size_t>(control - controls_.data());
  }
  const bool is_position = word == "position";
  return Element(&data_, DataField(model, is_position ? "qpos" : "qvel"),
                 is_position ? control->position : control->velocity, *control);
}

template <class Owner>
std::size_t ControlLaw::Element(std::vector<Read<Owner>>* reads, const Field<Owner>& field,
                                std::optional<std::size_t> index, const Control& control) {
  const std::string& name = field.name();
  const std::string& array = field.array();
  if (!field.is_real()) throw InvalidArgument("'" + name + "' holds no real numbers");
  const bool is_whole = name == array || array == "numeric_data";
  const bool is_per_actuator = array == "ctrl" || array == "numeric_data" || array.starts_with("actuator_");
  std::size_t element = 0;
  if (index) {
    element = *index;
  } else if (field.size() > 1 && is_whole && is_per_actuator && field.size() == controls_.size()) {
    element = static_cast<std::size_t>(&control - controls_.data());
  } else if (field.size() > 1) {
    throw InvalidArgument("'" + name + "' has " + std::to_string(field.size()) +
                          " elements: say which, as in '" + name + "[0]'");
  }
  if (element >= field.size()) {
    throw InvalidArgument("'" + name + "' has " + std::to_string(field.size()) + " elements, got [" +
                          std::to_string(element) + "]");
  }
  for (const Read<Owner>& read : *reads) {
    if (read.field.name() == name) return read.place + element;
  }
  reads->push_back({field, num_numbers_});
  num_numbers_ += field.size();
  if constexpr (std::is_same_v<Owner, mjData>) {
    if (!IsInput(array)) derived_.push_back(field);
  }
  return reads->back().place + element;
}

bool ControlLaw::Reads(const std::string& gain) const {
  return std::any_of(model_.begin(), model_.end(),
                     [&](const Read<mjModel>& read) { return read.field.name() == "numeric_data:" + gain; });
}

void ControlLaw::Compute(const mjModel& model, const double* action, double* workspace, mjData* data) const {
  const std::size_t count = controls_.size();
  for (std::size_t i = 0; i < count; ++i) {
    workspace[i] = action[i];
    workspace[count + i] = controls_[i].offset + controls_[i].scale * action[i];
  }
  for (const auto& [field, place] : data_) field.Get(*data, workspace + place);
  for (const auto& [field, place] : model_) field.Get(model, workspace + place);
  for (std::size_t i = 0; i < count; ++i) {
    const auto& expression = controls_[i].expression;
    data->ctrl[i] = expression ? expression->Evaluate(workspace, workspace + num_numbers_) : action[i];
  }
}

}  // namespace torchrl_pool::mujoco
