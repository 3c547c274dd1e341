// AntMaze: walk to a place in a maze on four legs. Reference: gymnasium_robotics/envs/maze/ant_maze_v5.py,
// _v4.py, version 1.4.2.
#include <algorithm>

#include "ant.h"
#include "maze.h"
#include "maze_model.h"

namespace torchrl_pool::robotics {
namespace {

using mujoco::Ant;

template <int version>
class AntMaze : public Ant<version> {
 public:
  using Base = Ant<version>;

  struct Options : Base::Options, MazeOptions {
    int mark = 0;  // the site that shows the goal

    explicit Options(const Map& map = NamedMaps()[0].map, bool is_dense = false) {
      maze_map = map;
      reward_type = is_dense ? "dense" : "sparse";
    }

    // Those of Ant about its reward change infos only.
    template <class Visitor>
    void Visit(Visitor& visit) {
      this->VisitMaze(visit);
      this->VisitRobot(visit);
      this->VisitForces(visit);
    }
    void Open() {
      maze.emplace(maze_map, 4.0, 0.5);
      this->OpenModel(ModelWithMaze(*this, *maze));
      this->LookUp();
      mark = mj_name2id(this->model.get(), mjOBJ_SITE, "target");
    }
  };
  using ResetOptions = MazeResetOptions;

  static Specs MakeSpecs(const Options& options) {
    Specs specs = Base::MakeSpecs(options);  // the action is the last
    specs.insert(specs.end() - 1, {Observation("achieved_goal", Box<double>({2}), "x, y"),
                                   Observation("desired_goal", Box<double>({2}), "x, y"),
                                   mujoco::ScalarInfo<bool>("success", "whether the goal is reached")});
    return specs;
  }

  explicit AntMaze(const Options& options) : Base(options), options_(options), goal_(options) {}

  void Reset(Row& row, const ResetOptions& chosen) {
    const Xy start = goal_.Reset(chosen, this->rng());
    std::vector<double> qpos = this->InitialPositions();
    std::copy_n(start.data(), 2, qpos.data());
    this->ResetTo(qpos, std::vector<double>(static_cast<std::size_t>(this->model().nv)));
    this->Begin(row);
    Write(row);
  }

  Outcome Step(Row& row) {
    Base::Step(row);
    Write(row);
    const Outcome outcome = goal_.Judge(Place());
    goal_.Advance(Place(), this->rng());
    return outcome;
  }

  void Render(std::uint8_t* rgb) {
    goal_.Show(this->simulation().mutable_data()->site_xpos + 3 * options_.mark);
    Base::Render(rgb);
  }

  template <class Visitor>
  void VisitState(Visitor& visit) {
    Base::VisitState(visit);
    goal_.VisitState(visit);
  }

 private:
  enum Output { kAchievedGoal = Base::kRewardContact + 1, kDesiredGoal, kSuccess };

  Xy Place() const { return {this->data().qpos[0], this->data().qpos[1]}; }
  void Write(const Row& row) const {
    std::copy_n(Place().data(), 2, row.Out<double>(kAchievedGoal));
    std::copy_n(goal_.place().data(), 2, row.Out<double>(kDesiredGoal));
    mujoco::PutInfo(row, kSuccess, goal_.IsReached(Place()));
  }

  const Options& options_;
  MazeGoal goal_;
};

template <int version>
bool RegisterVersion(const char* name) {
  return RegisterMazes<AntMaze<version>>("AntMaze", name, "walk to a place in a maze on four legs",
                                         {700, 1000, 1000});
}

const bool registered = RegisterVersion<5>("v5") && RegisterVersion<4>("v4");

}  // namespace
}  // namespace torchrl_pool::robotics
