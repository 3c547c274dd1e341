#include "fields.h"

#include <mujoco/mjxmacro.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <utility>

#include "torchrl_pool/error.h"

namespace torchrl_pool::mujoco {
namespace {

// An array of mjData or mjModel. Its rows belong to things of the model: `rows` names their number.
template <class Owner>
struct Array {
  const char* name;
  const char* rows;
  trp_dtype dtype;
  std::int64_t (*num_rows)(const mjModel&);
  std::int64_t (*num_columns)(const mjModel&);
  void* (*address)(const Owner&);
};

template <class T>
constexpr bool kIsTensorType =
    std::is_same_v<T, mjtNum> || std::is_same_v<T, int> || std::is_same_v<T, float> ||
    std::is_same_v<T, mjtBool> || std::is_same_v<T, mjtByte>;

template <class T, class Owner, class Address>
void Add(std::vector<Array<Owner>>* arrays, const char* name, const char* rows,
         std::int64_t (*num_rows)(const mjModel&), std::int64_t (*num_columns)(const mjModel&),
         Address address) {
  if constexpr (kIsTensorType<T>) {
    arrays->push_back({name, rows, DtypeOf<T>(), num_rows, num_columns, address});
  }
}

#undef MJ_M
#define MJ_M(n) m.n
#define ADD_ARRAY(Owner, type, name, rows, columns)                                              \
  Add<type, Owner>(                                                                              \
      &arrays, #name, #rows, [](const mjModel& m) { return static_cast<std::int64_t>(m.rows); }, \
      []([[maybe_unused]] const mjModel& m) { return static_cast<std::int64_t>(columns); },      \
      [](const Owner& owner) -> void* { return owner.name; });

const std::vector<Array<mjModel>>& Arrays(const mjModel*) {
  static const auto* const all = [] {
    std::vector<Array<mjModel>> arrays;
#define X(type, name, rows, columns) ADD_ARRAY(mjModel, type, name, rows, columns)
    MJMODEL_POINTERS
#undef X
    return new std::vector<Array<mjModel>>(std::move(arrays));
  }();
  return *all;
}

std::int64_t One(const mjModel&) { return 1; }
std::int64_t Two(const mjModel&) { return 2; }

const std::vector<Array<mjData>>& Arrays(const mjData*) {
  static const auto* const all = [] {
    std::vector<Array<mjData>> arrays;
#define X(type, name, rows, columns) ADD_ARRAY(mjData, type, name, rows, columns)
    MJDATA_POINTERS
#undef X
    Add<mjtNum>(&arrays, "time", "", One, One,
                [](const mjData& data) -> void* { return const_cast<mjtNum*>(&data.time); });
    Add<mjtNum>(&arrays, "energy", "", Two, One,
                [](const mjData& data) -> void* { return const_cast<mjtNum*>(data.energy); });
    Add<int>(&arrays, "ncon", "", One, One,
             [](const mjData& data) -> void* { return const_cast<int*>(&data.ncon); });
    return new std::vector<Array<mjData>>(std::move(arrays));
  }();
  return *all;
}

// Of which things an array's rows are, and which rows are one thing's.
struct Rows {
  const char* count;  // as in Array::rows
  mjtObj kind;
  std::pair<std::int64_t, std::int64_t> (*of)(const mjModel&, int);  // first and count; null: its number, 1
};

constexpr std::array<int, 4> kPositions{7, 4, 1, 1}, kVelocities{6, 3, 1, 1};  // by mjtJoint

const Rows kRows[] = {
    {"nbody", mjOBJ_BODY, nullptr},
    {"njnt", mjOBJ_JOINT, nullptr},
    {"ngeom", mjOBJ_GEOM, nullptr},
    {"nsite", mjOBJ_SITE, nullptr},
    {"ncam", mjOBJ_CAMERA, nullptr},
    {"nlight", mjOBJ_LIGHT, nullptr},
    {"nmat", mjOBJ_MATERIAL, nullptr},
    {"nmesh", mjOBJ_MESH, nullptr},
    {"npair", mjOBJ_PAIR, nullptr},
    {"neq", mjOBJ_EQUALITY, nullptr},
    {"ntendon", mjOBJ_TENDON, nullptr},
    {"nactuator", mjOBJ_ACTUATOR, nullptr},
    {"nsensor", mjOBJ_SENSOR, nullptr},
    {"nhfield", mjOBJ_HFIELD, nullptr},
    {"nkey", mjOBJ_KEY, nullptr},
    {"nnumeric", mjOBJ_NUMERIC, nullptr},
    {"nq", mjOBJ_JOINT,
     [](const mjModel& m, int i) {
       return std::pair<std::int64_t, std::int64_t>(m.jnt_qposadr[i], kPositions[m.jnt_type[i]]);
     }},
    {"nv", mjOBJ_JOINT,
     [](const mjModel& m, int i) {
       return std::pair<std::int64_t, std::int64_t>(m.jnt_dofadr[i], kVelocities[m.jnt_type[i]]);
     }},
    {"nu", mjOBJ_ACTUATOR,
     [](const mjModel& m, int i) {
       return std::pair<std::int64_t, std::int64_t>(m.actuator_ctrladr[i], m.actuator_ctrlnum[i]);
     }},
    {"nout", mjOBJ_ACTUATOR,
     [](const mjModel& m, int i) {
       return std::pair<std::int64_t, std::int64_t>(m.actuator_outadr[i], m.actuator_outnum[i]);
     }},
    {"na", mjOBJ_ACTUATOR,
     [](const mjModel& m, int i) {
       const int count = m.actuator_actnum[i];
       return std::pair<std::int64_t, std::int64_t>(count > 0 ? m.actuator_actadr[i] : 0, count);
     }},
    {"nsensordata", mjOBJ_SENSOR,
     [](const mjModel& m, int i) {
       return std::pair<std::int64_t, std::int64_t>(m.sensor_adr[i], m.sensor_dim[i]);
     }},
    {"nnumericdata", mjOBJ_NUMERIC,
     [](const mjModel& m, int i) {
       return std::pair<std::int64_t, std::int64_t>(m.numeric_adr[i], m.numeric_size[i]);
     }},
    {"nmocap", mjOBJ_BODY,
     [](const mjModel& m, int i) {
       const int mocap = m.body_mocapid[i];
       return std::pair<std::int64_t, std::int64_t>(std::max(mocap, 0), mocap >= 0 ? 1 : 0);
     }},
    {"nhfielddata", mjOBJ_HFIELD,
     [](const mjModel& m, int i) {
       return std::pair<std::int64_t, std::int64_t>(m.hfield_adr[i], m.hfield_nrow[i] * m.hfield_ncol[i]);
     }},
};

std::string Listed(const std::vector<std::string>& names) {
  std::string list;
  for (const std::string& name : names) {
    if (list.size() > 400) return list + ", …";
    list += (list.empty() ? "'" : ", '") + name + "'";
  }
  return list.empty() ? "none with a name" : list;
}

// How many characters must be written, left out or replaced to make one of the other.
std::size_t Distance(const std::string& a, const std::string& b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), 0);
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i + 1);
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i] != b[j]);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, diagonal + 1});
    }
  }
  return row.back();
}

bool ChangesItsLength(const std::string& array) {  // of mjData
  return array == "contact" || array.starts_with("efc_") || array.starts_with("iefc_");
}

template <class Owner>
constexpr const char* kOwner = std::is_same_v<Owner, mjData> ? "mjData" : "mjModel";

template <class Owner>
const Array<Owner>& FindArray(const std::string& name) {
  for (const Array<Owner>& array : Arrays(static_cast<const Owner*>(nullptr))) {
    if (array.name == name) return array;
  }
  if (std::is_same_v<Owner, mjData> && ChangesItsLength(name)) {
    throw InvalidArgument("'" + name +
                          "' of mjData has another length in each step, which a tensor cannot have; a sensor "
                          "of the model (touch, contact, …) gives such things in 'sensordata'");
  }
  throw InvalidArgument(std::string(kOwner<Owner>) + " has no array '" + name + "'" +
                        Suggestion(name, ArrayNames<Owner>()));
}

// Calls a function with a null pointer of the dtype's type.
template <class Function>
void WithType(trp_dtype dtype, Function&& function) {
  switch (dtype) {
    case TRP_FLOAT64:
      return function(static_cast<mjtNum*>(nullptr));
    case TRP_FLOAT32:
      return function(static_cast<float*>(nullptr));
    case TRP_INT32:
      return function(static_cast<int*>(nullptr));
    case TRP_BOOL:
      return function(static_cast<bool*>(nullptr));
    default:
      return function(static_cast<std::uint8_t*>(nullptr));
  }
}

// The names in "hip, 'left knee'".
std::vector<std::string> SplitNames(const std::string& list) {
  std::vector<std::string> names;
  for (std::size_t begin = 0; begin < list.size();) {
    std::size_t end = std::min(list.find(',', begin), list.size());
    std::string name = Trimmed(list.substr(begin, end - begin));
    if (name.starts_with('\'') || name.starts_with('"')) {
      const std::size_t quote = list.find(name[0], begin);
      const std::size_t closing = list.find(name[0], quote + 1);
      const std::size_t next =
          closing == std::string::npos ? closing : list.find_first_not_of(' ', closing + 1);
      if (closing != std::string::npos && (next == std::string::npos || list[next] == ',')) {
        name = list.substr(quote + 1, closing - quote - 1);
        end = std::min(next, list.size());
      }
    }
    names.push_back(name);
    begin = end + 1;
  }
  return names;
}

constexpr const char* kInputs[] = {"qpos",      "qvel",       "act",          "ctrl",
                                   "mocap_pos", "mocap_quat", "xfrc_applied", "qfrc_applied",
                                   "eq_active", "userdata",   "time"};

}  // namespace

std::vector<std::string> NamesOf(const mjModel& model, mjtObj kind) {
  std::vector<std::string> names;
  // An array that has a row for each of them tells how many there are.
  for (const Array<mjModel>& array : Arrays(&model)) {
    for (const Rows& rows : kRows) {
      if (rows.kind != kind || rows.of || std::strcmp(rows.count, array.rows) != 0) continue;
      for (int i = 0; i < array.num_rows(model); ++i) {
        if (const char* name = mj_id2name(&model, kind, i); name && *name) names.emplace_back(name);
      }
      return names;
    }
  }
  return names;
}

std::string Trimmed(const std::string& text) {
  constexpr const char* kSpaces = " \t\n\r\f\v";
  const std::size_t begin = text.find_first_not_of(kSpaces);
  if (begin == std::string::npos) return "";
  return text.substr(begin, text.find_last_not_of(kSpaces) - begin + 1);
}

std::string Suggestion(const std::string& name, const std::vector<std::string>& names) {
  const auto nearest = std::min_element(names.begin(), names.end(), [&](const auto& a, const auto& b) {
    return Distance(name, a) < Distance(name, b);
  });
  if (nearest == names.end() || Distance(name, *nearest) > std::max<std::size_t>(2, name.size() / 2)) {
    return "";
  }
  return " (did you mean '" + *nearest + "'?)";
}

template <class Owner>
std::vector<std::string> ArrayNames() {
  std::vector<std::string> names;
  for (const Array<Owner>& array : Arrays(static_cast<const Owner*>(nullptr))) names.push_back(array.name);
  return names;
}

template std::vector<std::string> ArrayNames<mjData>();
template std::vector<std::string> ArrayNames<mjModel>();

bool IsInput(const std::string& array) {
  return std::find(std::begin(kInputs), std::end(kInputs), array) != std::end(kInputs);
}

std::vector<std::string> InputNames() { return {std::begin(kInputs), std::end(kInputs)}; }

std::string Inputs() {
  std::string list;
  for (const char* name : kInputs) list += (list.empty() ? "" : ", ") + std::string(name);
  return list;
}

namespace {

// The number of one of the model's things, which `what` asks for.
int FindThing(const mjModel& model, const std::string& what, mjtObj kind, const std::string& name) {
  const int id = mj_name2id(&model, kind, name.c_str());
  if (id >= 0) return id;
  const std::vector<std::string> names = NamesOf(model, kind);
  throw InvalidArgument("'" + what + "': the model has no " + mju_type2Str(kind) + " '" + name + "'" +
                        Suggestion(name, names) + "; it has: " + Listed(names));
}

}  // namespace

template <class Owner>
Field<Owner>::Field(const mjModel& model, const std::string& what) : name_(what) {
  const std::size_t colon = what.find(':');
  array_ = what.substr(0, colon);
  const Array<Owner>& array = FindArray<Owner>(array_);
  address_ = array.address;
  dtype_ = array.dtype;
  const std::int64_t columns = array.num_columns(model);
  std::int64_t num_rows = array.num_rows(model);
  const auto add = [&](std::int64_t first, std::int64_t count) {
    runs_.push_back({static_cast<std::size_t>(first * columns), static_cast<std::size_t>(count * columns)});
    size_ += runs_.back().count;
  };
  if (colon == std::string::npos) {
    add(0, num_rows);
  } else {
    const auto rows = std::find_if(std::begin(kRows), std::end(kRows),
                                   [&](const Rows& r) { return std::strcmp(r.count, array.rows) == 0; });
    if (rows == std::end(kRows)) {
      throw InvalidArgument("'" + what + "': the elements of '" + array_ + "' have no names");
    }
    num_rows = 0;
    for (const std::string& name : SplitNames(what.substr(colon + 1))) {
      const int id = FindThing(model, what, rows->kind, name);
      const auto [first, count] =
          rows->of ? rows->of(model, id) : std::pair<std::int64_t, std::int64_t>(id, 1);
      if (count == 0) {
        throw InvalidArgument("'" + what + "': the " + mju_type2Str(rows->kind) + " '" + name +
                              "' has nothing in '" + array_ + "'");
      }
      add(first, count);
      num_rows += count;
    }
    if (num_rows == 0) throw InvalidArgument("'" + what + "': expected names after the colon");
  }
  if (size_ == 0) throw InvalidArgument("'" + what + "' is empty in this model");
  if (columns == 1) {
    if (*array.rows || num_rows > 1) shape_ = {num_rows};  // a number stands for itself
  } else if (runs_.size() == 1 && num_rows == 1 && colon != std::string::npos) {
    shape_ = {columns};
  } else {
    shape_ = {num_rows, columns};
  }
}

template <class Owner>
Space Field<Owner>::space() const {
  return {.dtype = dtype_, .shape = shape_, .low = {}, .high = {}, .categories = {}};
}

template <class Owner>
template <class Function>
void Field<Owner>::Visit(const Owner& owner, Function&& function) const {
  void* const array = address_(owner);
  WithType(dtype_, [&]<class T>(T*) {
    std::size_t done = 0;
    for (const Run& run : runs_) {
      function(static_cast<T*>(array) + run.first, run.count, done);
      done += run.count;
    }
  });
}

template <class Owner>
std::size_t Field<Owner>::num_bytes() const {
  std::size_t bytes = 0;
  WithType(dtype_, [&]<class T>(T*) { bytes = size_ * sizeof(T); });
  return bytes;
}

template <class Owner>
void Field<Owner>::Read(const Owner& owner, void* out) const {
  Visit(owner, [out]<class T>(const T* from, std::size_t count, std::size_t done) {
    std::memcpy(static_cast<T*>(out) + done, from, count * sizeof(T));
  });
}

template <class Owner>
void Field<Owner>::Get(const Owner& owner, double* values) const {
  Visit(owner, [values]<class T>(const T* from, std::size_t count, std::size_t done) {
    for (std::size_t i = 0; i < count; ++i) values[done + i] = static_cast<double>(from[i]);
  });
}

template <class Owner>
void Field<Owner>::Set(Owner* owner, const double* values) const {
  Visit(*owner, [values]<class T>(T* to, std::size_t count, std::size_t done) {
    for (std::size_t i = 0; i < count; ++i) to[i] = static_cast<T>(values[done + i]);
  });
}

template class Field<mjData>;
template class Field<mjModel>;

namespace {

std::variant<DataField, ModelField> Found(const mjModel& model, const std::string& what) {
  const std::string array = what.substr(0, what.find(':'));
  std::vector<std::string> names = ArrayNames<mjData>();
  const std::vector<std::string> of_model = ArrayNames<mjModel>();
  const auto is_among = [&](const auto& all) {
    return std::find(all.begin(), all.end(), array) != all.end();
  };
  if (is_among(names) || ChangesItsLength(array)) return DataField(model, what);
  if (is_among(of_model)) return ModelField(model, what);
  names.insert(names.end(), of_model.begin(), of_model.end());
  throw InvalidArgument("mjData and mjModel have no array '" + array + "'" + Suggestion(array, names));
}

}  // namespace

ReadField::ReadField(const mjModel& model, const std::string& what) : field_(Found(model, what)) {}

const std::string& ReadField::name() const {
  return std::visit([](const auto& field) -> const std::string& { return field.name(); }, field_);
}

Space ReadField::space() const {
  return std::visit([](const auto& field) { return field.space(); }, field_);
}

std::size_t ReadField::num_bytes() const {
  return std::visit([](const auto& field) { return field.num_bytes(); }, field_);
}

void ReadField::Read(const mjModel& model, const mjData& data, void* out) const {
  if (const auto* of_data = std::get_if<DataField>(&field_)) return of_data->Read(data, out);
  std::get<ModelField>(field_).Read(model, out);
}

}  // namespace torchrl_pool::mujoco
