// PointMaze: move a ball to a place in a maze. Reference: gymnasium_robotics/envs/maze/point_maze.py and
// point.py, version 1.4.2.
#include <algorithm>

#include "gymnasium_env.h"
#include "maze.h"
#include "maze_model.h"

namespace torchrl_pool::robotics {
namespace {

using mujoco::GymnasiumEnv;
using mujoco::GymnasiumOptions;
using mujoco::PutInfo;

class PointMaze : public GymnasiumEnv {
 public:
  struct Options : GymnasiumOptions, MazeOptions {
    int mark = 0;  // the site that shows the goal

    explicit Options(const Map& map = NamedMaps()[0].map, bool is_dense = false)
        : GymnasiumOptions(ModelFolder() + "/point/point.xml", 1, std::nullopt) {
      maze_map = map;
      reward_type = is_dense ? "dense" : "sparse";
    }

    template <class Visitor>
    void Visit(Visitor& visit) {
      VisitMaze(visit);
      VisitView(visit);
    }
    void Open() {
      maze.emplace(maze_map, 1.0, 0.4);
      default_camera_config = {{"distance", {maze_map.size() > 8 ? 12.5 : 8.8}}};
      OpenModel(ModelWithMaze(*this, *maze));
      mark = mj_name2id(model.get(), mjOBJ_SITE, "target");
    }
  };
  using ResetOptions = MazeResetOptions;

  enum Output { kObservation, kAchievedGoal, kDesiredGoal, kSuccess };

  static Specs MakeSpecs(const Options& options) {
    return {Observation("observation", Box<double>({4}), "x, y, x velocity, y velocity"),
            Observation("achieved_goal", Box<double>({2}), "x, y"),
            Observation("desired_goal", Box<double>({2}), "x, y"),
            mujoco::ScalarInfo<bool>("success", "whether the goal is reached"), options.Control()};
  }

  explicit PointMaze(const Options& options) : GymnasiumEnv(options), options_(options), goal_(options) {}

  void Reset(Row& row, const ResetOptions& chosen) {
    const Xy start = goal_.Reset(chosen, rng());
    ResetTo({start[0], start[1]}, {0, 0});
    Write(row);
  }

  Outcome Step(Row& row) {
    float action[2];
    for (int i = 0; i < 2; ++i) action[i] = std::clamp(row.Action<float>()[i], -1.0f, 1.0f);
    ClipVelocity();
    simulation().Step(action, 1);
    Write(row);
    const Outcome outcome = goal_.Judge(Place());
    goal_.Advance(Place(), rng());
    return outcome;
  }

  void Render(std::uint8_t* rgb) {
    goal_.Show(simulation().mutable_data()->site_xpos + 3 * options_.mark);
    GymnasiumEnv::Render(rgb);
  }

  template <class Visitor>
  void VisitState(Visitor& visit) {
    GymnasiumEnv::VisitState(visit);
    goal_.VisitState(visit);
  }

 private:
  Xy Place() const { return {data().qpos[0], data().qpos[1]}; }
  void ClipVelocity() {
    simulation().Run([this] {
      mjData* const data = simulation().mutable_data();
      for (int i = 0; i < 2; ++i) data->qvel[i] = std::clamp(data->qvel[i], -5.0, 5.0);
      mj_forward(&model(), data);
    });
  }
  void Write(const Row& row) const {
    WritePositionsAndVelocities(row.Out<double>(kObservation));
    std::copy_n(Place().data(), 2, row.Out<double>(kAchievedGoal));
    std::copy_n(goal_.place().data(), 2, row.Out<double>(kDesiredGoal));
    PutInfo(row, kSuccess, goal_.IsReached(Place()));
  }

  const Options& options_;
  MazeGoal goal_;
};

const bool registered =
    RegisterMazes<PointMaze>("PointMaze", "v3", "move a ball to a place in a maze", {300, 600, 800});

}  // namespace
}  // namespace torchrl_pool::robotics
