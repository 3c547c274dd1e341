// The physics of the Multi Particle Environments: discs that are pushed, damped and soft to the touch.
// Reference: mpe2/_mpe_utils/core.py. Its noise of motors and of words, which it draws from NumPy's global
// stream, is off in all scenarios and has no option there, so it is not here.
#ifndef TORCHRL_POOL_ENVS_MPE_WORLD_H_
#define TORCHRL_POOL_ENVS_MPE_WORLD_H_

#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace torchrl_pool::mpe {

using Point = std::array<double, 2>;
using Colour = std::array<double, 3>;  // red, green, blue

inline Point operator-(const Point& a, const Point& b) { return {a[0] - b[0], a[1] - b[1]}; }
// numpy.sum(numpy.square(p)).
inline double SquaredLength(const Point& p) { return p[0] * p[0] + p[1] * p[1]; }

struct Entity {
  // Fixed by the scenario.
  std::string name = {};  // of an agent: "adversary_0"
  double size = 0.05;
  double mass = 1;
  double acceleration = 5;
  double max_speed = std::numeric_limits<double>::infinity();
  bool moves = false;
  bool collides = false;
  bool is_silent = true;
  Colour colour = {0.25, 0.25, 0.25};
  double scatter = 1;  // how far from the middle it begins at most, in each direction

  Point position{}, velocity{};
  Point control{};                 // what the last action asked for
  Point force{};                   // within a step
  std::vector<double> words = {};  // what it says; empty where it is silent

  template <class Visitor>
  void VisitState(Visitor& visit) {
    visit(position, velocity);
    for (double& word : words) visit(word);
  }
};

inline double SquaredDistance(const Entity& a, const Entity& b) {
  return SquaredLength(a.position - b.position);
}
inline double Distance(const Entity& a, const Entity& b) { return std::sqrt(SquaredDistance(a, b)); }
inline bool Touch(const Entity& a, const Entity& b) { return Distance(a, b) < a.size + b.size; }

class World {
 public:
  // Agents come before landmarks.
  void AddAgent(Entity agent) {
    entities_.push_back(std::move(agent));
    ++num_agents_;
  }
  void AddLandmark(Entity landmark) { entities_.push_back(std::move(landmark)); }

  std::span<Entity> all() { return entities_; }
  std::span<Entity> agents() { return all().first(num_agents_); }
  std::span<Entity> landmarks() { return all().subspan(num_agents_); }
  std::span<const Entity> agents() const { return std::span(entities_).first(num_agents_); }
  std::span<const Entity> landmarks() const { return std::span(entities_).subspan(num_agents_); }

  // Moves everything on by a tenth of a second.
  void Step();

 private:
  std::vector<Entity> entities_;
  std::size_t num_agents_ = 0;
};

}  // namespace torchrl_pool::mpe

#endif  // TORCHRL_POOL_ENVS_MPE_WORLD_H_
