#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "bipedal_walker.h"
#include "canvas.h"

namespace torchrl_pool::box2d {
namespace {

using pictures::Canvas;
using pictures::Colour;
using pictures::Corners;
using pictures::Point;

constexpr Colour kSky{215, 215, 255}, kEarth{102, 153, 76}, kGrey{153, 153, 153};
constexpr Colour kWalkerHull{127, 51, 229}, kWalkerHullEdge{76, 76, 127}, kWalkerFlag{230, 51, 0},
    kRed{255, 0, 0};

// In Box2D's arithmetic.
Corners OnScreen(const b2Body& body, const b2Vec2* points, int count) {
  Corners corners;
  for (int i = 0; i < count; ++i) {
    const b2Vec2 place = body.GetWorldPoint(points[i]);
    corners.push_back(
        {place.x * static_cast<float>(Walk::kScale), place.y * static_cast<float>(Walk::kScale)});
  }
  return corners;
}

class WalkerPainter {
 public:
  WalkerPainter(Canvas* canvas, const BipedalScene& scene)
      : canvas_(*canvas), scene_(scene), scroll_(scene.Scroll()) {}

  void Draw(const b2World& world) {
    const double left = scroll_ * Walk::kScale;
    canvas_.Shape({{left, 0},
                   {left + Walk::kViewWidth, 0},
                   {left + Walk::kViewWidth, Walk::kViewHeight},
                   {left, Walk::kViewHeight}},
                  kSky);
    for (const auto& cloud : scene_.clouds) DrawCloud(cloud);
    for (int i = 0; i + 1 < BipedalScene::kLength; ++i) DrawEarth(i);
    DrawLidar(world);
    DrawGround();
    for (int i = 0; i < 4; ++i) {
      const int lighter = i < 2 ? 25 : -25;
      DrawBody(*scene_.walker.legs[i], Shade(153, 76, 127, lighter), Shade(102, 51, 76, lighter));
    }
    DrawBody(*scene_.walker.hull, kWalkerHull, kWalkerHullEdge);
    DrawFlag();
  }

 private:
  static Colour Shade(int red, int green, int blue, int lighter) {
    const auto channel = [lighter](int value) { return static_cast<std::uint8_t>(value + lighter); };
    return {channel(red), channel(green), channel(blue)};
  }

  void DrawCloud(const std::array<Walk::Place, 5>& cloud) {
    const auto [low, high] = std::minmax_element(
        cloud.begin(), cloud.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    if (high->first < scroll_ / 2 || low->first > scroll_ / 2 + Walk::kViewWidth / Walk::kScale) return;
    Corners corners;
    for (const auto& [x, y] : cloud)
      corners.push_back({x * Walk::kScale + scroll_ * Walk::kScale / 2, y * Walk::kScale});
    canvas_.Shape(corners, pictures::kWhite);
    canvas_.Outline(corners, pictures::kWhite);
  }

  void DrawEarth(int i) {
    const double left = i * Walk::kStep, right = (i + 1) * Walk::kStep;
    if (right < scroll_ || left > scroll_ + Walk::kViewWidth / Walk::kScale) return;
    const Corners corners = {{left * Walk::kScale, scene_.ground[i] * Walk::kScale},
                             {right * Walk::kScale, scene_.ground[i + 1] * Walk::kScale},
                             {right * Walk::kScale, 0},
                             {left * Walk::kScale, 0}};
    canvas_.Shape(corners, kEarth);
    canvas_.Outline(corners, kEarth);
  }

  // A ray at a time, each twice, while 20 of 100 pictures are shown.
  void DrawLidar(const b2World& world) {
    const int picture = scene_.pictures % 100;
    if (picture >= 2 * LidarRay::kRays) return;
    // Python's negative indices count from the end.
    const int number = picture < LidarRay::kRays ? picture : 2 * LidarRay::kRays - 1 - picture;
    const b2Vec2 from = scene_.walker.hull->GetPosition();
    const LidarRay ray(world, from, number);
    canvas_.Line({from.x * Walk::kScale, from.y * Walk::kScale},
                 {ray.end.first * Walk::kScale, ray.end.second * Walk::kScale}, kRed);
  }

  // The last part of the terrain first.
  void DrawGround() {
    for (int i = BipedalScene::kLength - 2; i >= 0; --i) {
      const auto& edge = static_cast<const b2EdgeShape&>(*scene_.edges[i]->GetFixtureList()->GetShape());
      const b2Vec2 ends[2] = {edge.m_vertex1, edge.m_vertex2};
      const Corners line = OnScreen(*scene_.edges[i], ends, 2);
      const Colour colour{76, static_cast<std::uint8_t>(i % 2 == 0 ? 255 : 204), 76};
      canvas_.SmoothLine(line[0], line[1], colour);
    }
    for (auto body = scene_.obstacles.rbegin(); body != scene_.obstacles.rend(); ++body) {
      DrawBody(**body, pictures::kWhite, kGrey);
    }
  }

  void DrawBody(const b2Body& body, Colour colour, Colour edge) {
    const auto& shape = static_cast<const b2PolygonShape&>(*body.GetFixtureList()->GetShape());
    Corners path = OnScreen(body, &shape.GetVertex(0), shape.GetVertexCount());
    canvas_.Shape(path, colour);
    canvas_.Outline(path, colour);
    path.push_back(path[0]);
    canvas_.Lines(path, edge, 1, true);
    canvas_.Outline(path, edge);
  }

  void DrawFlag() {
    const double x = Walk::kStep * 3 * Walk::kScale, foot = Walk::kHeight * Walk::kScale, top = foot + 50;
    canvas_.SmoothLine({x, foot}, {x, top}, pictures::kBlack);
    const Corners cloth = {{x, top}, {x, top - 10}, {x + 25, top - 5}};
    canvas_.Shape(cloth, kWalkerFlag);
    canvas_.Lines(cloth, pictures::kBlack, 1, true);
  }

  Canvas& canvas_;
  const BipedalScene& scene_;
  const double scroll_;
};

}  // namespace

// The reference draws the world from its beginning and shows its right end, so lines are cut where that
// begins.
void DrawWalk(std::uint8_t* rgb, const BipedalScene& scene, const b2World& world) {
  const double drawn = Walk::kViewWidth + std::max(0.0, scene.Scroll()) * Walk::kScale;
  // It lies within the terrain, but for what a state that was made up may say.
  const auto width = static_cast<std::int64_t>(std::clamp(drawn, Walk::kViewWidth, 10 * Walk::kViewWidth));
  std::vector<std::uint8_t> pixels(static_cast<std::size_t>(kWalkPicture.height * width * 3));
  Canvas canvas(pixels.data(), {kWalkPicture.height, width}, pictures::kBlack);
  canvas.CountFromOtherEnd();
  WalkerPainter(&canvas, scene).Draw(world);
  canvas.CountFromOtherEnd();
  const auto row_bytes = static_cast<std::size_t>(kWalkPicture.width * 3);
  for (std::int64_t y = 0; y < kWalkPicture.height; ++y, rgb += row_bytes) {
    std::memcpy(rgb, canvas.At(width - kWalkPicture.width, y), row_bytes);
  }
}

}  // namespace torchrl_pool::box2d
