// Any model: its physics and what is to be read of it. Rewards are for whoever steps it.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>
#include <string_view>

#include "actuation.h"
#include "fields.h"
#include "gymnasium_env.h"
#include "random_change.h"
#include "shared_data.h"

namespace torchrl_pool::mujoco {
namespace {

// A pole to try things with, where no model is given.
constexpr const char* kPole = R"(<mujoco>
  <worldbody>
    <light pos="0 -2 2"/>
    <body name="pole" pos="0 0 1">
      <joint name="hinge" axis="0 1 0" damping="0.1"/>
      <geom name="rod" type="capsule" fromto="0 0 0 0 0 -0.6" size="0.04" mass="1"/>
    </body>
  </worldbody>
  <actuator><motor name="motor" joint="hinge" gear="1" ctrllimited="true" ctrlrange="-1 1"/></actuator>
  <sensor><jointpos name="angle" joint="hinge"/></sensor>
</mujoco>)";

// Whether mj_setConst computes this array of mjModel.
bool IsDerived(std::string_view array) {
  constexpr std::string_view kDerived[] = {
      "actuator_acc0",  "actuator_length0", "body_invweight0",   "body_subtreemass", "body_margin",
      "bvh_aabb",       "cam_mat0",         "cam_pos0",          "cam_poscom0",      "dof_M0",
      "dof_invweight0", "dof_length",       "geom_aabb",         "geom_rbound",      "light_dir0",
      "light_pos0",     "light_poscom0",    "tendon_invweight0", "tendon_length0"};
  return std::find(std::begin(kDerived), std::end(kDerived), array) != std::end(kDerived);
}

// What MuJoCo computes only where somebody asks for it.
struct Wanted {
  bool momenta = false, forces = false;

  // An array of mjData.
  void Add(std::string_view array) {
    momenta |= array == "subtree_linvel" || array == "subtree_angmom";
    forces |= array == "cacc" || array == "cfrc_int" || array == "cfrc_ext";
  }
  void Compute(const mjModel& model, mjData* data) const {
    if (momenta) mj_subtreeVel(&model, data);
    if (forces) mj_rnePostConstraint(&model, data);
  }
};

class Mjcf {
 public:
  struct Options : GymnasiumOptions {
    std::vector<std::string> observation{"qpos", "qvel"};
    std::optional<IntOrString> keyframe;
    std::vector<std::string> randomize;
    std::vector<std::string> model_fields;
    bool fresh = false;
    ActuationOptions actuation;

    // What Open makes of them.
    std::vector<ReadField> fields;
    std::vector<RandomChange> draws;
    std::vector<ModelField> changed;  // of the model; empty: all envs share it
    int key = -1;
    Wanted wanted;
    std::shared_ptr<SharedData> shared;  // null: a simulation needs data of its own

    Options() : GymnasiumOptions(kPole, 1, std::nullopt) {}

    template <class Visitor>
    void Visit(Visitor& visit) {
      VisitModel(visit);
      visit("observation", observation,
            "arrays of mjData, such as 'qpos', 'sensordata', 'xpos:torso' or 'qvel:hip,knee', and of each "
            "env's mjModel, such as 'body_mass:torso'");
      visit("keyframe", keyframe, "where episodes begin: a keyframe of the model, by number or name");
      visit("randomize", randomize,
            "what is drawn at each reset, such as 'qpos += uniform(-0.1, 0.1)' or 'body_mass *= normal(1, "
            "0.1)'");
      visit("model_fields", model_fields,
            "arrays of mjModel that resets may set, such as 'geom_friction:floor'");
      visit(
          "fresh", fresh,
          "compute what derives from positions and velocities anew after each step, instead of leaving it as "
          "the last simulation step found it");
      actuation.Visit(visit);
      VisitCamera(visit);
      VisitView(visit);
    }

    void Open() {
      GymnasiumOptions::Open();
      if (keyframe) OpenKeyframe();
      actuation.Open(*model, key < 0 ? model->qpos0 : model->key_qpos + key * model->nq);
      if (observation.empty())
        throw InvalidArgument("observation: expected at least one array of mjData or mjModel");
      for (const std::string& name : observation) {
        const ReadField& field = fields.emplace_back(*model, name);
        if (field.data()) wanted.Add(field.data()->array());
      }
      for (const std::string& line : randomize) {
        const RandomChange& draw = draws.emplace_back(*model, line);
        if (draw.model()) Change(*draw.model());
      }
      for (const std::string& name : model_fields) Change(ModelField(*model, name));
      const auto computed = [](const ReadField& field) {
        return !field.data() || SharedData::Suits(field.data()->array());
      };
      if (SharedData::Suits(*model) && std::all_of(fields.begin(), fields.end(), computed)) {
        shared = std::make_shared<SharedData>(model);
      }
    }

   private:
    void Change(const ModelField& field) {
      if (!field.is_real()) {
        throw InvalidArgument("'" + field.name() + "' of mjModel holds integers, which no reset may change");
      }
      if (IsDerived(field.array())) {
        throw InvalidArgument("'" + field.name() +
                              "' of mjModel: MuJoCo derives it anew from what it comes from; change that");
      }
      const auto same = [&](const ModelField& other) { return other.name() == field.name(); };
      if (std::none_of(changed.begin(), changed.end(), same)) changed.push_back(field);
    }
    void OpenKeyframe() {
      if (const auto* name = std::get_if<std::string>(&*keyframe)) {
        key = mj_name2id(model.get(), mjOBJ_KEY, name->c_str());
        if (key < 0) {
          const std::vector<std::string> names = NamesOf(*model, mjOBJ_KEY);
          throw InvalidArgument("keyframe: the model has no keyframe '" + *name + "'" +
                                Suggestion(*name, names));
        }
        return;
      }
      const std::int64_t number = std::get<std::int64_t>(*keyframe);
      if (number < 0 || number >= model->nkey) {
        throw InvalidArgument("keyframe: the model has " + std::to_string(model->nkey) + ", got number " +
                              std::to_string(number));
      }
      key = static_cast<int>(number);
    }
  };

  // Values for one reset, of inputs of mjData and of the model's fields that may change.
  struct ResetOptions {
    FloatListMap start, set;

    struct DataValues {
      DataField field;
      std::vector<double> values;
    };
    struct ModelValues {
      ModelField field;
      std::vector<double> values;
    };
    std::vector<ModelValues> start_model;  // before random changes
    std::vector<DataValues> data;          // after them
    std::vector<ModelValues> model;        // likewise

    explicit ResetOptions(const Options& options) : options_(&options) {}

    template <class Visitor>
    void Visit(Visitor& visit) {
      visit("start", start,
            "values of mjModel by name, which random changes start from, such as {'body_mass': […]}");
      visit("set", set, "values by name, such as {'qpos': […], 'mocap_pos:target': […], 'body_mass': […]}");
    }
    void Open() {
      for (const auto& [name, values] : start) AddModel("start", name, values, &start_model);
      for (const auto& [name, values] : set) {
        if (!IsInput(name.substr(0, name.find(':')))) {
          AddModel("set", name, values, &model);
          continue;
        }
        try {
          data.push_back({DataField(*options_->model, name), values});
        } catch (const InvalidArgument& error) {
          throw InvalidArgument(std::string("set: ") + error.what());
        }
        Check("set", data.back().field, values);
      }
    }

   private:
    void AddModel(const std::string& option, const std::string& name, const std::vector<double>& values,
                  std::vector<ModelValues>* to) const {
      to->push_back({FindChanged(option, name), values});
      Check(option, to->back().field, values);
    }
    template <class F>
    static void Check(const std::string& option, const F& field, const std::vector<double>& values) {
      for (const double value : values) {
        if (!std::isfinite(value)) {
          throw InvalidArgument(option + ": '" + field.name() + "' holds NaN or infinity");
        }
      }
      if (field.size() == values.size()) return;
      throw InvalidArgument(option + ": '" + field.name() + "' has " + std::to_string(field.size()) +
                            " elements, got " + std::to_string(values.size()));
    }
    const ModelField& FindChanged(const std::string& option, const std::string& name) const {
      std::vector<std::string> names;
      for (const ModelField& field : options_->changed) {
        if (field.name() == name) return field;
        names.push_back(field.name());
      }
      if (option == "set") {
        for (const std::string& input : InputNames()) names.push_back(input);
      }
      throw InvalidArgument(option + ": a reset cannot set '" + name + "'" + Suggestion(name, names) +
                            "; it can set " + (option == "set" ? Inputs() + ", and " : "") +
                            "what model_fields names");
    }

    const Options* options_;
  };

  static Specs MakeSpecs(const Options& options) {
    Specs specs;
    for (const ReadField& field : options.fields) {
      specs.push_back(Observation(field.name(), field.space(), field.data() ? "of mjData" : "of mjModel"));
    }
    for (const ReadField& field : options.fields) {
      specs.push_back(Info("previous:" + field.name(), field.space(), "the same before the step"));
    }
    specs.push_back(options.actuation.ActionSpec(*options.model));
    return specs;
  }

  explicit Mjcf(const Options& options)
      : options_(options),
        simulation_(options.model, options.shared.get()),
        actuation_(options.actuation, *options.model, options.frame_skip) {
    for (const ReadField& field : options.fields) latest_.emplace_back(field.num_bytes());
  }

  void Seed(Entropy entropy) { rng_ = Rng(entropy); }

  void Reset(Row& row, const ResetOptions& chosen) {
    const Simulation::Use use(simulation_);
    std::vector<std::vector<double>> numbers;
    for (const RandomChange& draw : options_.draws) numbers.push_back(draw.Sample(rng_));
    if (!options_.changed.empty()) ResetModel(numbers, chosen);
    const mjModel* const model = &simulation_.model();
    mjData* data = nullptr;
    simulation_.Restart([&] {
      data = simulation_.mutable_data();
      if (options_.key < 0) {
        mj_resetData(model, data);
      } else {
        mj_resetDataKeyframe(model, data, options_.key);
      }
    });
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      if (const auto& field = options_.draws[i].data())
        ChangeField(*field, data, options_.draws[i], numbers[i]);
    }
    for (const auto& [field, values] : chosen.data) field.Set(data, values.data());
    simulation_.Run([&] {
      mj_forward(model, data);
      if (options_.fresh) options_.wanted.Compute(*model, data);
    });
    actuation_.Reset(*data, rng_);
    Write(row, /*begins=*/true);
  }

  Outcome Step(Row& row) {
    const Simulation::Use use(simulation_);
    torchrl_pool::internal::StateWriter own;  // the shared data's state is the Use's to keep
    if (!options_.shared) VisitSimulation(own);
    try {
      Advance(row.Action<float>());
    } catch (const std::exception& error) {
      actuation_.TakeBack();
      torchrl_pool::internal::StateReader reader(own.bytes().data(), own.bytes().size());
      if (!options_.shared) VisitSimulation(reader);
      throw Unchanged(error.what());
    }
    Write(row, /*begins=*/false);
    return {};
  }

  static ImageSize RenderSize(const Options& options) { return {options.view.height, options.view.width}; }
  void Render(std::uint8_t* rgb) {
    const Simulation::Use use(simulation_, Simulation::Use::Keep::kNothing);
    simulation_.Recompute([&] { FinishStep(); });
    Draw(options_.model, simulation_.model(), simulation_.mutable_data(), options_.view, rgb);
  }

  template <class Visitor>
  void VisitState(Visitor& visit) {
    const Simulation::Use use(simulation_);
    visit(rng_);
    VisitSimulation(visit);
    actuation_.VisitState(visit);
    for (std::size_t i = 0; i < latest_.size(); ++i) {
      visit(latest_[i]);
      const ReadField& field = options_.fields[i];
      if (latest_[i].size() != field.num_bytes())
        throw InvalidArgument("the saved state is of other arrays of the model");
      const auto is_bool = [](std::uint8_t byte) { return byte <= 1; };
      if (field.space().dtype == TRP_BOOL && !std::all_of(latest_[i].begin(), latest_[i].end(), is_bool))
        throw InvalidArgument("corrupt saved state: invalid bool");
    }
  }

 private:
  template <class Visitor>
  void VisitSimulation(Visitor& visit) {
    if (!options_.changed.empty()) VisitModel(visit);
    simulation_.VisitState(visit);
  }

  template <class Owner>
  static void ChangeField(const Field<Owner>& field, Owner* owner, const RandomChange& draw,
                          const std::vector<double>& numbers) {
    std::vector<double> values(field.size());
    field.Get(*owner, values.data());
    draw.Apply(numbers, values.data());
    field.Set(owner, values.data());
  }

  // The shared model's numbers, changed as this episode has them.
  void ResetModel(const std::vector<std::vector<double>>& numbers, const ResetOptions& chosen) {
    mjModel* const own = simulation_.OwnModel();
    for (const ModelField& field : options_.changed) {
      std::vector<double> values(field.size());
      field.Get(*options_.model, values.data());
      field.Set(own, values.data());
    }
    for (const auto& [field, values] : chosen.start_model) field.Set(own, values.data());
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      if (const auto& field = options_.draws[i].model())
        ChangeField(*field, own, options_.draws[i], numbers[i]);
    }
    for (const auto& [field, values] : chosen.model) field.Set(own, values.data());
    DeriveConstants(own);
  }
  // What the compiler has derived from the model's numbers, in their initial configuration.
  void DeriveConstants(mjModel* own) {
    simulation_.Restart([&] { mj_setConst(own, simulation_.mutable_data()); });
  }

  template <class Visitor>
  void VisitModel(Visitor& visit) {
    std::size_t size = 0;
    for (const ModelField& field : options_.changed) size += field.size();
    std::vector<double> values(size);
    mjModel* const own = simulation_.OwnModel();
    double* next = values.data();
    for (const ModelField& field : options_.changed) {
      field.Get(*own, next);
      next += field.size();
    }
    visit(values);
    if constexpr (Visitor::kReading) {
      if (values.size() != size) throw InvalidArgument("the saved state is of another model");
      for (const double value : values) {
        if (!std::isfinite(value)) throw InvalidArgument("corrupt saved state: a value is out of its range");
      }
      next = values.data();
      for (const ModelField& field : options_.changed) {
        field.Set(own, next);
        next += field.size();
      }
      DeriveConstants(own);
    }
  }

  void Advance(const float* action) {
    const mjModel* const model = &simulation_.model();
    mjData* const data = simulation_.mutable_data();
    actuation_.Act(action);
    simulation_.Run([&] {
      for (std::int64_t i = 0; i + 1 < options_.frame_skip; ++i) actuation_.Advance(i, *model, data);
    });
    simulation_.Mark();
    simulation_.Run([&] { FinishStep(); });
  }
  // Its last simulation step, and what follows from it.
  void FinishStep() {
    const mjModel& model = simulation_.model();
    mjData* const data = simulation_.mutable_data();
    actuation_.Advance(options_.frame_skip - 1, model, data);
    if (options_.fresh) mj_forward(&model, data);
    options_.wanted.Compute(model, data);
  }

  // Arrays as they are and, where somebody asks for it, as the call before has left them. Where an episode
  // begins, there was none.
  void Write(Row& row, bool begins) {
    const int count = static_cast<int>(latest_.size());
    for (int i = 0; i < count; ++i) {
      std::vector<std::uint8_t>& latest = latest_[static_cast<std::size_t>(i)];
      void* const previous = row.Out<void>(count + i);
      if (previous && !begins) std::memcpy(previous, latest.data(), latest.size());
      options_.fields[static_cast<std::size_t>(i)].Read(simulation_.model(), simulation_.data(),
                                                        latest.data());
      if (previous && begins) std::memcpy(previous, latest.data(), latest.size());
      std::memcpy(row.Out<void>(i), latest.data(), latest.size());
    }
  }

  const Options& options_;
  Simulation simulation_;
  Actuation actuation_;
  Rng rng_;
  std::vector<std::vector<std::uint8_t>> latest_;  // what the last call has written, by field
};

const bool registered = Register<Mjcf>(
    {.id = "MJCF-v0",
     .description = "the physics of any MuJoCo model, without a reward: MujocoPool makes a task of it, with "
                    "a time limit of 1000 steps by default"});

}  // namespace
}  // namespace torchrl_pool::mujoco
