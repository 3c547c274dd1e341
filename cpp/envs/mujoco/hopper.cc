// Hopper: hop forwards on one leg. Reference: gymnasium/envs/mujoco/hopper_v5.py, _v4.py.
#include <array>
#include <cmath>
#include <limits>

#include "planar_walker.h"

namespace torchrl_pool::mujoco {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

template <int version>
class Hopper : public PlanarWalker<version> {
 public:
  struct Options : PlanarWalkerOptions {
    std::array<double, 2> healthy_state_range{-100.0, 100.0};

    Options() : PlanarWalkerOptions("hopper.xml", 3.0, {0.7, kInfinity}, {-0.2, 0.2}) {}

    template <class Visitor>
    void Visit(Visitor& visit) {
      this->template VisitTask<version>(visit, [&] {
        visit("healthy_state_range", healthy_state_range,
              "coordinates and velocities, from the third on, of a healthy robot");
      });
    }
  };

  explicit Hopper(const Options& options) : PlanarWalker<version>(options), options_(options) {}

 private:
  bool IsHealthy() const override {
    const auto inside = [this](const double* values, std::int64_t first, std::int64_t count) {
      const auto& [low, high] = options_.healthy_state_range;
      for (std::int64_t i = first; i < count; ++i) {
        if (!(low < values[i] && values[i] < high)) return false;
      }
      return true;
    };
    return inside(this->data().qpos, 2, this->model().nq) && inside(this->data().qvel, 0, this->model().nv) &&
           PlanarWalker<version>::IsHealthy();
  }

  const Options& options_;
};

const TaskInfo kHopper{.id = "Hopper-v5",
                       .description = "hop forwards on one leg",
                       .max_episode_steps = 1000,
                       .reward_threshold = 3800};
const bool registered = Register<Hopper<5>>(kHopper) && Register<Hopper<4>>(Version4(kHopper));

}  // namespace
}  // namespace torchrl_pool::mujoco
