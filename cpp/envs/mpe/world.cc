#include "world.h"

#include <numbers>

namespace torchrl_pool::mpe {
namespace {

constexpr double kTimeStep = 0.1;
constexpr double kDamping = 0.25;
constexpr double kContactForce = 1e2;
constexpr double kContactMargin = 1e-3;
// From this gap between two discs on the force is exactly 0: the exponential of -gap / kContactMargin
// underflows beyond -745.2.
constexpr double kLargestGap = 0.746;

// numpy.logaddexp(0, x), which calls the C library on every processor.
double LogAddExp0(double x) {
  if (x == 0) return std::numbers::ln2;
  return x < 0 ? std::log1p(std::exp(x)) : x + std::log1p(std::exp(-x));
}

void Push(Entity& a, Entity& b) {
  const Point away = a.position - b.position;
  const double distance = std::sqrt(SquaredLength(away));
  const double least = a.size + b.size;
  if (distance - least > kLargestGap) return;
  const double depth = LogAddExp0(-(distance - least) / kContactMargin) * kContactMargin;
  for (std::size_t k = 0; k < 2; ++k) {
    const double force = kContactForce * away[k] / distance * depth;
    a.force[k] += force;
    b.force[k] -= force;
  }
}

void Move(Entity& entity) {
  Point& velocity = entity.velocity;
  for (std::size_t k = 0; k < 2; ++k) {
    entity.position[k] += velocity[k] * kTimeStep;
    velocity[k] = velocity[k] * (1 - kDamping) + entity.force[k] / entity.mass * kTimeStep;
  }
  const double speed = std::sqrt(SquaredLength(velocity));
  if (speed > entity.max_speed) {
    for (double& v : velocity) v = v / speed * entity.max_speed;
  }
}

}  // namespace

void World::Step() {
  for (Entity& entity : entities_) entity.force = entity.control;
  for (std::size_t a = 0; a < num_agents_; ++a) {
    if (!entities_[a].collides) continue;
    for (std::size_t b = a + 1; b < entities_.size(); ++b) {
      if (entities_[b].collides) Push(entities_[a], entities_[b]);
    }
  }
  for (Entity& agent : agents()) {
    if (agent.moves) Move(agent);
  }
}

}  // namespace torchrl_pool::mpe
