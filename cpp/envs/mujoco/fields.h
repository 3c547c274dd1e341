// The arrays of mjData and mjModel by name, and parts of them by the names of bodies, joints, sensors, …
#ifndef TORCHRL_POOL_ENVS_MUJOCO_FIELDS_H_
#define TORCHRL_POOL_ENVS_MUJOCO_FIELDS_H_

#include <mujoco/mujoco.h>

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "torchrl_pool/spec.h"

namespace torchrl_pool::mujoco {

// Elements of one array, as "xpos", "xpos:torso" or "qpos:hip,knee" name them; names may be quoted, and must
// be where they hold commas. Owner: mjData or mjModel.
template <class Owner>
class Field {
 public:
  // Throws InvalidArgument, with the nearest name there is.
  Field(const mjModel& model, const std::string& what);

  const std::string& name() const { return name_; }    // as it was asked for
  const std::string& array() const { return array_; }  // without the part
  Space space() const;
  std::size_t size() const { return size_; }
  std::size_t num_bytes() const;
  bool is_real() const { return dtype_ == TRP_FLOAT64 || dtype_ == TRP_FLOAT32; }

  // Copies the elements to `out`, in the array's own type.
  void Read(const Owner& owner, void* out) const;
  // `values`: one per element, as doubles.
  void Get(const Owner& owner, double* values) const;
  void Set(Owner* owner, const double* values) const;

 private:
  struct Run {
    std::size_t first, count;
  };
  template <class Function>
  void Visit(const Owner& owner, Function&& function) const;

  std::string name_, array_;
  void* (*address_)(const Owner&);
  trp_dtype dtype_;
  std::vector<std::int64_t> shape_;
  std::vector<Run> runs_;
  std::size_t size_ = 0;
};

using DataField = Field<mjData>;
using ModelField = Field<mjModel>;

// Elements of an array of mjData or, where that has none of the name, of the mjModel that an env steps with.
class ReadField {
 public:
  // Throws InvalidArgument, with the nearest name there is.
  ReadField(const mjModel& model, const std::string& what);

  const std::string& name() const;
  Space space() const;
  std::size_t num_bytes() const;
  // Of mjData; null: of mjModel.
  const DataField* data() const { return std::get_if<DataField>(&field_); }
  void Read(const mjModel& model, const mjData& data, void* out) const;

 private:
  std::variant<DataField, ModelField> field_;
};

// Whether a reset may write this array of mjData; MuJoCo computes the others from these.
bool IsInput(const std::string& array);
// What IsInput accepts; and the same as a list for messages.
std::vector<std::string> InputNames();
std::string Inputs();

// The names of the model's bodies, joints, keyframes, …
std::vector<std::string> NamesOf(const mjModel& model, mjtObj kind);

// What mjData or mjModel has.
template <class Owner>
std::vector<std::string> ArrayNames();

// Without spaces at its ends.
std::string Trimmed(const std::string& text);

// The nearest of these names, as " (did you mean 'x'?)"; empty where none is near.
std::string Suggestion(const std::string& name, const std::vector<std::string>& names);

}  // namespace torchrl_pool::mujoco

#endif  // TORCHRL_POOL_ENVS_MUJOCO_FIELDS_H_
