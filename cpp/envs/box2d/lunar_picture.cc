#include <algorithm>

#include "canvas.h"
#include "lunar_lander.h"

namespace torchrl_pool::box2d {
namespace {

using pictures::Canvas;
using pictures::Colour;
using pictures::Corners;
using pictures::Point;

constexpr Colour kLanderHull{128, 102, 230}, kLanderHullEdge{77, 77, 128}, kLanderFlag{204, 204, 0};

// In Box2D's arithmetic.
Point OnScreen(const b2Body& body, const b2Vec2& point) {
  const b2Vec2 place = body.GetWorldPoint(point);
  return {place.x * static_cast<float>(Lunar::kScale), place.y * static_cast<float>(Lunar::kScale)};
}

void DrawBody(Canvas* canvas, const b2Body& body) {
  for (const b2Fixture* fixture = body.GetFixtureList(); fixture; fixture = fixture->GetNext()) {
    const auto& shape = static_cast<const b2PolygonShape&>(*fixture->GetShape());
    Corners path;
    for (int i = 0; i < shape.GetVertexCount(); ++i) path.push_back(OnScreen(body, shape.GetVertex(i)));
    canvas->Shape(path, kLanderHull);
    canvas->Outline(path, kLanderHull);
    canvas->SmoothLines(path, kLanderHullEdge, true);
  }
}

void DrawFlags(Canvas* canvas) {
  for (const int chunk : {Lunar::kChunks / 2 - 1, Lunar::kChunks / 2 + 1}) {
    const double x = Lunar::ChunkX(chunk) * Lunar::kScale, foot = Lunar::kPadHeight * Lunar::kScale,
                 top = foot + 50;
    canvas->Line({x, foot}, {x, top}, pictures::kWhite);
    const Corners cloth = {{x, top}, {x, top - 10}, {x + 25, top - 5}};
    canvas->Shape(cloth, kLanderFlag);
    canvas->Outline(cloth, kLanderFlag);
  }
}

void DrawParticle(Canvas* canvas, const Lunar::Particle& particle) {
  const auto channel = [](double value) { return static_cast<std::uint8_t>(std::max(0.2, value) * 255); };
  const std::uint8_t dim = channel(0.5 * particle.lifetime);
  canvas->Disc(OnScreen(*particle.body, b2Vec2(0, 0)), 2, {channel(0.15 + particle.lifetime), dim, dim});
}

}  // namespace

void DrawLunar(std::uint8_t* rgb, const Lunar& scene) {
  Canvas canvas(rgb, kLunarPicture, pictures::kWhite);
  canvas.CountFromOtherEnd();
  for (int i = 0; i + 1 < Lunar::kChunks; ++i) {
    const double left = Lunar::ChunkX(i) * Lunar::kScale, right = Lunar::ChunkX(i + 1) * Lunar::kScale;
    const double top = Lunar::kHeight * Lunar::kScale;
    const Corners sky = {{left, scene.ground[i] * Lunar::kScale},
                         {right, scene.ground[i + 1] * Lunar::kScale},
                         {right, top},
                         {left, top}};
    canvas.Shape(sky, pictures::kBlack);
    canvas.Outline(sky, pictures::kBlack);
  }
  // The flags are drawn anew after each part, and so hide what is behind them.
  for (const auto& particle : scene.particles) {
    DrawParticle(&canvas, particle);
    DrawFlags(&canvas);
  }
  for (const b2Body* body : {scene.lander, scene.legs[0], scene.legs[1]}) {
    DrawBody(&canvas, *body);
    DrawFlags(&canvas);
  }
}

}  // namespace torchrl_pool::box2d
