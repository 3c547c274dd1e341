// Walker2d: walk forwards on two legs in a plane. Reference: gymnasium/envs/mujoco/walker2d_v5.py, _v4.py.
#include "planar_walker.h"

namespace torchrl_pool::mujoco {
namespace {

template <int version>
class Walker2d : public PlanarWalker<version> {
 public:
  struct Options : PlanarWalkerOptions {
    Options()
        : PlanarWalkerOptions(version >= 5 ? "walker2d_v5.xml" : "walker2d.xml", 4.0, {0.8, 2.0},
                              {-1.0, 1.0}) {}

    template <class Visitor>
    void Visit(Visitor& visit) {
      this->template VisitTask<version>(visit, [] {});
    }
  };

  explicit Walker2d(const Options& options) : PlanarWalker<version>(options) {}
};

const TaskInfo kWalker2d{
    .id = "Walker2d-v5", .description = "walk forwards on two legs in a plane", .max_episode_steps = 1000};
const bool registered = Register<Walker2d<5>>(kWalker2d) && Register<Walker2d<4>>(Version4(kWalker2d));

}  // namespace
}  // namespace torchrl_pool::mujoco
