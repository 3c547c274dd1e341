#include "terrain.h"

#include <cmath>

#include "physics.h"

namespace torchrl_pool::box2d {
namespace {

constexpr double kStep = Walk::kStep;

class Terrain {
 public:
  Terrain(b2World* world, Rng* rng, bool hardcore, Walk* walk)
      : world_(world), rng_(*rng), hardcore_(hardcore), walk_(*walk) {}

  void Generate() {
    const auto length = static_cast<int>(walk_.ground.size());
    for (int i = 0; i < length; ++i) {
      const double x = i * kStep;
      if (begins_) {
        BeginObstacle(x);
      } else {
        Continue(i);
      }
      begins_ = false;
      walk_.ground[i] = y_;
      if (--left_ == 0) Change();
    }
    for (int i = 0; i + 1 < length; ++i) {
      b2EdgeShape edge;
      edge.Set(Vector(i * kStep, walk_.ground[i]), Vector((i + 1) * kStep, walk_.ground[i + 1]));
      walk_.edges[i] = AddStatic(edge);
    }
  }

 private:
  enum Kind { kGrass, kStump, kStairs, kPit, kKinds };

  void Change() {
    left_ = rng_.Integers(5, 10);
    kind_ = kind_ == kGrass && hardcore_ ? static_cast<Kind>(rng_.Integers(1, kKinds)) : kGrass;
    begins_ = true;
  }

  void Continue(int i) {
    if (kind_ == kGrass) {
      const double above = Walk::kHeight - y_;
      slope_ = 0.8 * slope_ + 0.01 * ((above > 0) - (above < 0));
      if (i > 20) slope_ += rng_.Uniform(-1, 1) / Walk::kScale;
      y_ += slope_;
    } else if (kind_ == kPit) {
      y_ = edge_;
      if (left_ > 1) y_ -= 4 * kStep;
    } else if (kind_ == kStairs) {
      const std::int64_t s = steps_ * width_ - left_ - rise_;
      const double n = static_cast<double>(s) / static_cast<double>(width_);
      y_ = edge_ + (n * static_cast<double>(rise_)) * kStep;
    }
  }

  void BeginObstacle(double x) {
    if (kind_ == kPit) {
      left_ = rng_.Integers(3, 5);
      const double away = kStep * static_cast<double>(left_), bottom = y_ - 4 * kStep;
      AddPolygon({{x, y_}, {x + kStep, y_}, {x + kStep, bottom}, {x, bottom}});
      AddPolygon({{x + away, y_}, {x + kStep + away, y_}, {x + kStep + away, bottom}, {x + away, bottom}});
      left_ += 2;
      edge_ = y_;
    } else if (kind_ == kStump) {
      left_ = rng_.Integers(1, 3);
      const double size = static_cast<double>(left_) * kStep;
      AddPolygon({{x, y_}, {x + size, y_}, {x + size, y_ + size}, {x, y_ + size}});
    } else if (kind_ == kStairs) {
      rise_ = rng_.Random() > 0.5 ? 1 : -1;
      width_ = rng_.Integers(4, 5);
      steps_ = rng_.Integers(3, 5);
      edge_ = y_;
      for (std::int64_t s = 0; s < steps_; ++s) {
        const auto right = [&](std::int64_t n) { return x + static_cast<double>(n * width_) * kStep; };
        const auto up = [&](std::int64_t n) { return y_ + static_cast<double>(n) * kStep; };
        AddPolygon({{right(s), up(s * rise_)},
                    {right(1 + s), up(s * rise_)},
                    {right(1 + s), up(-1 + s * rise_)},
                    {right(s), up(-1 + s * rise_)}});
      }
      left_ = steps_ * width_;
    }
  }

  void AddPolygon(const Walk::Place (&corners)[4]) {
    b2Vec2 rounded[4];
    for (int i = 0; i < 4; ++i) rounded[i] = Vector(corners[i].first, corners[i].second);
    b2PolygonShape shape;
    shape.Set(rounded, 4);
    walk_.obstacles.push_back(AddStatic(shape));
  }
  b2Body* AddStatic(const b2Shape& shape) {
    b2FixtureDef fixture;
    fixture.shape = &shape;
    fixture.friction = 2.5f;
    return AddBody(world_, b2_staticBody, Vector(0, 0), 0, fixture);
  }

  b2World* const world_;
  Rng& rng_;
  const bool hardcore_;
  Walk& walk_;
  Kind kind_ = kGrass;
  bool begins_ = false;
  std::int64_t left_ = 20;  // steps until the next kind
  std::int64_t steps_ = 0, width_ = 0, rise_ = 0;
  double slope_ = 0, y_ = Walk::kHeight, edge_ = 0;
};

}  // namespace

void GenerateTerrain(b2World* world, Rng* rng, bool hardcore, Walk* walk) {
  Terrain(world, rng, hardcore, walk).Generate();
}

void GenerateClouds(Rng* rng, Walk* walk) {
  const auto length = static_cast<double>(walk->ground.size());
  for (auto& cloud : walk->clouds) {
    const double x = rng->Uniform(0, length) * kStep, y = Walk::kViewHeight / Walk::kScale * 3 / 4;
    for (int corner = 0; corner < 5; ++corner) {
      const double angle = 3.14 * 2 * corner / 5;
      const double right = x + 15 * kStep * std::sin(angle) + rng->Uniform(0, 5 * kStep);
      const double up = y + 5 * kStep * std::cos(angle) + rng->Uniform(0, 5 * kStep);
      cloud[corner] = {right, up};
    }
  }
}

}  // namespace torchrl_pool::box2d
