// Fetch: an arm with a gripper that is moved by its place in space: MuJoCo welds the gripper to a body that
// follows the action. Reference: gymnasium_robotics/envs/fetch/*.py, envs/robot_env.py and utils/*.py,
// version 1.4.2.
#include <algorithm>
#include <cmath>
#include <limits>

#include "goal.h"
#include "gymnasium_env.h"
#include "numpy_blas.h"

namespace torchrl_pool::robotics {
namespace {

using mujoco::GymnasiumEnv;
using mujoco::GymnasiumOptions;
using mujoco::Model;
using mujoco::Protect;
using mujoco::PutInfo;
using Vector = std::array<double, 3>;

// What tells the tasks apart.
struct Variant {
  const char* name;
  const char* description;
  const char* model;
  double base_x;                 // where the robot stands
  std::array<double, 3> object;  // where its object lies at first
  bool has_object, block_gripper, target_in_the_air;
  double gripper_extra_height, target_offset_x, obj_range, target_range;
};
constexpr Variant kVariants[] = {
    {"Reach",
     "move the gripper of an arm to a place",
     "reach.xml",
     0.4049,
     {},
     false,
     true,
     true,
     0.2,
     0,
     0.15,
     0.15},
    {"Push",
     "push a block to a place on the table",
     "push.xml",
     0.405,
     {1.25, 0.53, 0.4},
     true,
     true,
     false,
     0,
     0,
     0.15,
     0.15},
    {"Slide",
     "hit a puck so that it slides to a place out of reach",
     "slide.xml",
     0.05,
     {1.7, 1.1, 0.41},
     true,
     true,
     false,
     -0.02,
     0.4,
     0.1,
     0.3},
    {"PickAndPlace",
     "grasp a block and bring it to a place on the table or in the air",
     "pick_and_place.xml",
     0.405,
     {1.25, 0.53, 0.4},
     true,
     false,
     true,
     0.2,
     0,
     0.15,
     0.15},
};

constexpr double kThreshold = 0.05;  // m
constexpr int kSubsteps = 20;
constexpr int kMostDraws = 100'000;
constexpr double kRotation[] = {1, 0, 1, 0};  // of the gripper: a quaternion

int Number(const mjModel& model, mjtObj kind, const char* name) {
  const int id = mj_name2id(&model, kind, name);
  if (id < 0)
    throw InvalidArgument(std::string("the model has no ") + mju_type2Str(kind) + " '" + name + "'");
  return id;
}

// The numbers of the things that are moved or observed.
struct Parts {
  int grip = 0, object = 0, target = 0;  // sites
  int gripper = 0;                       // body that is welded
  int object_joint = 0;
  std::array<int, 2> fingers{};  // joints

  Parts() = default;
  Parts(const mjModel& model, bool has_object)
      : grip(Number(model, mjOBJ_SITE, "robot0:grip")),
        object(has_object ? Number(model, mjOBJ_SITE, "object0") : 0),
        target(Number(model, mjOBJ_SITE, "target0")),
        gripper(Number(model, mjOBJ_BODY, "robot0:gripper_link")),
        object_joint(has_object ? Number(model, mjOBJ_JOINT, "object0:joint") : 0),
        fingers{Number(model, mjOBJ_JOINT, "robot0:r_gripper_finger_joint"),
                Number(model, mjOBJ_JOINT, "robot0:l_gripper_finger_joint")} {}
};

Vector VectorAt(const double* numbers) { return {numbers[0], numbers[1], numbers[2]}; }

// rotations.mat2euler, of a matrix in rows.
Vector Euler(const double* m) {
  const double cy = std::sqrt(m[8] * m[8] + m[5] * m[5]);
  const double y = -std::atan2(-m[2], cy);
  if (cy > 4 * std::numeric_limits<double>::epsilon()) {
    return {-std::atan2(m[5], m[8]), y, -std::atan2(m[1], m[0])};
  }
  return {0, y, -std::atan2(-m[3], m[4])};
}

class Fetch : public GymnasiumEnv {
 public:
  struct Options : GymnasiumOptions {
    const Variant& variant;
    std::string reward_type;

    // What Open makes of them: the state in which episodes begin, with the gripper above the table.
    Parts parts;
    double time = 0, object_height = 0;
    std::vector<double> qpos, qvel;
    Vector gripper{};

    Options(const Variant& v, bool is_dense)
        : GymnasiumOptions(ModelFolder() + "/fetch/" + v.model, kSubsteps,
                           {{{"distance", {2.5}},
                             {"azimuth", {132.0}},
                             {"elevation", {-14.0}},
                             {"lookat", {1.3, 0.75, 0.55}}}}),
          variant(v),
          reward_type(is_dense ? "dense" : "sparse") {}

    template <class Visitor>
    void Visit(Visitor& visit) {
      VisitRewardType(visit, reward_type,
                      "'sparse': 0 within 0.05 m of the goal, else -1; 'dense': minus the distance");
      VisitCamera(visit);
      const Limits<std::int64_t> positive{.choices = {}, .minimum = 1, .maximum = 16384};
      visit("width", width, "width of pictures (pixels)", positive);
      visit("height", height, "height of pictures (pixels)", positive);
    }
    void Open() {
      GymnasiumOptions::Open();
      parts = Parts(*model, variant.has_object);
      SetWelds();
      MoveIntoPosition();
    }

   private:
    // The gripper's place and rotation are the moved body's own.
    void SetWelds() {
      mjModel* changed = nullptr;
      Protect([&] { changed = mj_copyModel(nullptr, model.get()); });
      if (!changed) throw std::bad_alloc();
      for (int i = 0; i < changed->neq; ++i) {
        if (changed->eq_type[i] != mjEQ_WELD) continue;
        mjtNum* const data = changed->eq_data + mjNEQDATA * i;
        std::fill_n(data, 6, 0.0);
        data[6] = 1;
      }
      model = Model(changed, [](mjModel* m) { mj_deleteModel(m); });
    }
    void MoveIntoPosition() {
      mujoco::Simulation simulation(model);
      mjData* const data = simulation.mutable_data();
      const auto place = [&](const char* joint) {
        return data->qpos + model->jnt_qposadr[Number(*model, mjOBJ_JOINT, joint)];
      };
      *place("robot0:slide0") = variant.base_x;
      *place("robot0:slide1") = 0.48;
      *place("robot0:slide2") = 0;
      if (variant.has_object) {
        double* const object = place("object0:joint");
        std::copy_n(variant.object.data(), 3, object);
        std::copy_n(std::array<double, 4>{1, 0, 0, 0}.data(), 4, object + 3);
      }
      simulation.Run([&] {
        mj_forward(model.get(), data);
        mj_forward(model.get(), data);
      });
      const double* const grip = data->site_xpos + 3 * parts.grip;
      const int mocap = model->body_mocapid[Number(*model, mjOBJ_BODY, "robot0:mocap")];
      data->mocap_pos[3 * mocap] = -0.498 + grip[0];
      data->mocap_pos[3 * mocap + 1] = 0.005 + grip[1];
      data->mocap_pos[3 * mocap + 2] = -0.431 + variant.gripper_extra_height + grip[2];
      std::copy_n(kRotation, 4, data->mocap_quat + 4 * mocap);
      simulation.Run([&] {
        for (int i = 0; i < 10 * kSubsteps; ++i) mj_step(model.get(), data);
      });
      time = data->time;
      qpos.assign(data->qpos, data->qpos + model->nq);
      qvel.assign(data->qvel, data->qvel + model->nv);
      gripper = VectorAt(grip);
      if (variant.has_object) object_height = data->site_xpos[3 * parts.object + 2];
    }
  };

  enum Output { kObservation, kAchievedGoal, kDesiredGoal, kIsSuccess };

  static Specs MakeSpecs(const Options& options) {
    const bool has_object = options.variant.has_object;
    const std::string object =
        has_object
            ? "object x, object y, object z, object x minus grip x, object y minus grip y, object z minus "
              "grip z, "
            : "";
    const std::string motion =
        has_object
            ? "object angle x, object angle y, object angle z, object x velocity minus grip's, object y "
              "velocity minus grip's, object z velocity minus grip's, object angular x, object angular "
              "y, object angular z, "
            : "";
    const std::string achieved = has_object ? "object x, object y, object z" : "grip x, grip y, grip z";
    return {Observation("observation", Box<double>({has_object ? 25 : 10}),
                        "grip x, grip y, grip z, " + object + "right finger, left finger, " + motion +
                            "grip x velocity, grip y velocity, grip z velocity, right finger velocity, left "
                            "finger velocity"),
            Observation("achieved_goal", Box<double>({3}), achieved),
            Observation("desired_goal", Box<double>({3}), "goal x, goal y, goal z"),
            mujoco::ScalarInfo<float>("is_success", "1 where the goal is reached, else 0"),
            torchrl_pool::Action("action", Box<float>({4}, -1.0, 1.0), "grip x, grip y, grip z, fingers")};
  }

  explicit Fetch(const Options& options) : GymnasiumEnv(options), options_(options) {}

  void Reset(Row& row) {
    std::vector<double> qpos = options_.qpos;
    if (variant().has_object) PlaceObject(qpos.data() + model().jnt_qposadr[parts().object_joint]);
    simulation().Restart([&] {
      mjData* const data = simulation().mutable_data();
      mj_resetData(&model(), data);
      data->time = options_.time;
      std::copy_n(qpos.data(), model().nq, data->qpos);
      std::copy_n(options_.qvel.data(), model().nv, data->qvel);
      mj_forward(&model(), data);
    });
    DrawGoal();
    Write(row);
    PutInfo(row, kIsSuccess, 0.0f);
  }

  Outcome Step(Row& row) {
    SetAction(row.Action<float>());
    simulation().Run([this] {
      mjData* const data = simulation().mutable_data();
      for (int i = 0; i < kSubsteps; ++i) mj_step(&model(), data);
      if (!variant().block_gripper) return;
      for (const int finger : parts().fingers) data->qpos[model().jnt_qposadr[finger]] = 0;
      mj_forward(&model(), data);
    });
    Write(row);
    const double distance = Distance(Achieved(), goal_);
    PutInfo(row, kIsSuccess, distance < kThreshold ? 1.0f : 0.0f);
    const bool is_dense = options_.reward_type == "dense";
    return {.reward = -(is_dense ? distance : static_cast<double>(distance > kThreshold))};
  }

  // As it is in the last state, which what a step leaves behind need not be.
  void Render(std::uint8_t* rgb) {
    mjData* const data = simulation().mutable_data();
    std::vector<double> state(static_cast<std::size_t>(mj_stateSize(&model(), mjSTATE_INTEGRATION)));
    mj_getState(&model(), data, state.data(), mjSTATE_INTEGRATION);
    simulation().Run([&] { mj_forward(&model(), data); });
    mj_setState(&model(), data, state.data(), mjSTATE_INTEGRATION);  // which a picture does not look at
    std::copy_n(goal_.data(), 3, data->site_xpos + 3 * parts().target);
    GymnasiumEnv::Render(rgb);
  }

  template <class Visitor>
  void VisitState(Visitor& visit) {
    GymnasiumEnv::VisitState(visit);
    visit(goal_, gripper_pose_);
  }

 private:
  const Variant& variant() const { return options_.variant; }
  const Parts& parts() const { return options_.parts; }
  const double* Site(int site) const { return data().site_xpos + 3 * site; }

  // Anywhere around the gripper, but not below it.
  void PlaceObject(double* place) {
    const Vector& gripper = options_.gripper;
    const double range = variant().obj_range;
    for (int i = 0; i < kMostDraws; ++i) {
      std::array<double, 2> offset;
      for (std::size_t k = 0; k < 2; ++k) {
        place[k] = gripper[k] + rng().Uniform(-range, range);
        offset[k] = place[k] - gripper[k];
      }
      if (!(Norm(offset) < 0.1)) return;
    }
    throw std::runtime_error("failed to find a place for the object");
  }

  void DrawGoal() {
    const double range = variant().target_range;
    for (std::size_t i = 0; i < 3; ++i) goal_[i] = options_.gripper[i] + rng().Uniform(-range, range);
    if (!variant().has_object) return;
    goal_[0] += variant().target_offset_x;
    goal_[2] = options_.object_height;
    if (variant().target_in_the_air && rng().Uniform(0, 1) < 0.5) goal_[2] += rng().Uniform(0, 0.45);
  }

  // Moves the body that the gripper is welded to, from where the gripper is, and the fingers.
  void SetAction(const float* action) {
    const auto clipped = [action](int i) { return std::clamp(action[i], -1.0f, 1.0f); };
    mjData* const data = simulation().mutable_data();
    const double fingers = variant().block_gripper ? 0.0 : clipped(3);
    for (int i = 0; i < std::min<int>(2, static_cast<int>(model().nu)); ++i) {
      const bool is_force = model().actuator_biastype[i] == mjBIAS_NONE;
      const int address = model().jnt_qposadr[model().actuator_trnid[2 * i]];
      data->ctrl[i] = is_force ? fingers : data->qpos[address] + fingers;
    }
    for (int i = 0; i < 3; ++i) {
      data->mocap_pos[i] = gripper_pose_[static_cast<std::size_t>(i)] + clipped(i) * 0.05f;
    }
    for (int i = 0; i < 4; ++i)
      data->mocap_quat[i] = gripper_pose_[static_cast<std::size_t>(3 + i)] + kRotation[i];
  }

  Vector Achieved() const { return VectorAt(Site(variant().has_object ? parts().object : parts().grip)); }

  struct Velocity {
    Vector linear, angular;
  };
  // Of a site, over a step.
  Velocity SiteVelocity(int site) const {
    const int nv = static_cast<int>(model().nv);
    std::vector<double> jacobians(static_cast<std::size_t>(6 * nv));
    double* const angular = jacobians.data() + 3 * nv;
    mj_jacSite(&model(), &data(), jacobians.data(), angular, site);
    Velocity velocity{};
    Product(jacobians.data(), 3, nv, data().qvel, velocity.linear.data());
    Product(angular, 3, nv, data().qvel, velocity.angular.data());
    for (Vector* const part : {&velocity.linear, &velocity.angular}) {
      for (double& number : *part) number *= options_.dt();
    }
    return velocity;
  }

  void Write(const Row& row) {
    const double* const gripper = data().xpos + 3 * parts().gripper;
    std::copy_n(gripper, 3, gripper_pose_.data());
    std::copy_n(data().xquat + 4 * parts().gripper, 4, gripper_pose_.data() + 3);

    const Vector grip = VectorAt(Site(parts().grip)), grip_velocity = SiteVelocity(parts().grip).linear;
    mujoco::Writer out(row.Out<double>(kObservation));
    out.Add(grip.data(), 3);
    Vector object{};
    if (variant().has_object) {
      object = VectorAt(Site(parts().object));
      out.Add(object.data(), 3).Add(Difference(object, grip).data(), 3);
    }
    for (const int finger : parts().fingers) out.Add(data().qpos[model().jnt_qposadr[finger]]);
    if (variant().has_object) {
      const Velocity velocity = SiteVelocity(parts().object);
      out.Add(Euler(data().site_xmat + 9 * parts().object).data(), 3)
          .Add(Difference(velocity.linear, grip_velocity).data(), 3)
          .Add(velocity.angular.data(), 3);
    }
    out.Add(grip_velocity.data(), 3);
    for (const int finger : parts().fingers) {
      out.Add(data().qvel[model().jnt_dofadr[finger]] * options_.dt());
    }
    std::copy_n(Achieved().data(), 3, row.Out<double>(kAchievedGoal));
    std::copy_n(goal_.data(), 3, row.Out<double>(kDesiredGoal));
  }

  const Options& options_;
  Vector goal_{};
  // Of the gripper, place and quaternion, after the last step. Kept here, because MuJoCo derives it from the
  // state before a step's last substep: it cannot be had from the saved state.
  std::array<double, 7> gripper_pose_{};
};

template <int number>
struct Task : Fetch {
  struct Options : Fetch::Options {
    explicit Options(bool is_dense = false) : Fetch::Options(kVariants[number], is_dense) {}
  };
  using Fetch::Fetch;
};

template <int number>
bool RegisterBoth() {
  const Variant& variant = kVariants[number];
  for (const bool is_dense : {false, true}) {
    Register<Task<number>>({.id = std::string("Fetch") + variant.name + (is_dense ? "Dense-v4" : "-v4"),
                            .description = variant.description,
                            .max_episode_steps = 50},
                           typename Task<number>::Options(is_dense));
  }
  return true;
}

const bool registered = RegisterBoth<0>() && RegisterBoth<1>() && RegisterBoth<2>() && RegisterBoth<3>();

}  // namespace
}  // namespace torchrl_pool::robotics
