#include "walk_picture.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "canvas.h"

namespace torchrl_pool::box2d {
namespace {

using pictures::Canvas;
using pictures::Colour;
using pictures::Corners;
using pictures::Point;

constexpr Colour kSky{215, 215, 255}, kEarth{102, 153, 76}, kGrey{153, 153, 153};
constexpr Colour kWalkerHull{127, 51, 229}, kWalkerHullEdge{76, 76, 127}, kWalkerFlag{230, 51, 0},
    kPackage{127, 102, 229}, kRed{255, 0, 0};

class WalkPainter {
 public:
  WalkPainter(Canvas* canvas, const WalkPicture& picture)
      : canvas_(*canvas), picture_(picture), walk_(picture.walk), scale_(picture.scale) {}

  void Draw() {
    const double left = OnScreen(picture_.scroll, 0).x;
    canvas_.Shape({{left, 0},
                   {left + Walk::kViewWidth, 0},
                   {left + Walk::kViewWidth, Walk::kViewHeight},
                   {left, Walk::kViewHeight}},
                  kSky);
    for (const auto& cloud : walk_.clouds) DrawCloud(cloud);
    for (std::size_t i = 0; i < walk_.edges.size(); ++i) DrawEarth(i);
    for (const Walker* walker : picture_.walkers) DrawLidar(*walker);
    DrawGround();
    if (picture_.package) DrawBody(*picture_.package, kPackage, kWalkerHullEdge);
    for (const Walker* walker : picture_.walkers) {
      if (walker->hull) DrawWalker(*walker);
    }
    DrawFlag();
  }

 private:
  static Colour Shade(int red, int green, int blue, int lighter) {
    const auto channel = [lighter](int value) { return static_cast<std::uint8_t>(value + lighter); };
    return {channel(red), channel(green), channel(blue)};
  }

  Point OnScreen(double x, double y) const { return {x * scale_ + picture_.offset, y * scale_}; }

  // In Box2D's arithmetic.
  Corners OnScreen(const b2Body& body, const b2Vec2* points, int count) const {
    Corners corners;
    for (int i = 0; i < count; ++i) {
      const b2Vec2 place = static_cast<float>(scale_) * body.GetWorldPoint(points[i]);
      corners.push_back({place.x + picture_.offset, place.y});
    }
    return corners;
  }

  bool IsInSight(double left, double right, double scroll) const {
    return !(right < scroll) && !(left > scroll + picture_.reach);
  }

  void Fill(const Corners& corners, Colour colour) {
    if (picture_.is_pettingzoos) return canvas_.Polygon(corners, colour);
    canvas_.Shape(corners, colour);
    canvas_.Outline(corners, colour);
  }

  void DrawCloud(const std::array<Walk::Place, 5>& cloud) {
    const auto [low, high] = std::minmax_element(
        cloud.begin(), cloud.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    if (!IsInSight(low->first, high->first, picture_.scroll / 2)) return;
    Corners corners;
    for (const auto& [x, y] : cloud)
      corners.push_back({x * scale_ + picture_.scroll * scale_ / 2 + picture_.offset, y * scale_});
    Fill(corners, pictures::kWhite);
  }

  void DrawEarth(std::size_t i) {
    const double left = static_cast<double>(i) * Walk::kStep,
                 right = static_cast<double>(i + 1) * Walk::kStep;
    if (!IsInSight(left, right, picture_.scroll)) return;
    Fill({OnScreen(left, walk_.ground[i]), OnScreen(right, walk_.ground[i + 1]), OnScreen(right, 0),
          OnScreen(left, 0)},
         kEarth);
  }

  // A ray at a time, each twice, while 20 of 100 pictures are shown; also of who has been taken away.
  void DrawLidar(const Walker& walker) {
    const auto number = static_cast<int>(picture_.number % 100);
    if (number >= 2 * Walker::kRays) return;
    // Python's negative indices count from the end.
    const auto [x, y] = walker.ray_ends[number < Walker::kRays ? number : 2 * Walker::kRays - 1 - number];
    canvas_.Line(OnScreen(walker.eye.x, walker.eye.y), OnScreen(x, y), kRed);
  }

  // The last part of the terrain first.
  void DrawGround() {
    for (std::size_t i = walk_.edges.size(); i-- > 0;) {
      const auto& edge = static_cast<const b2EdgeShape&>(*walk_.edges[i]->GetFixtureList()->GetShape());
      const b2Vec2 ends[2] = {edge.m_vertex1, edge.m_vertex2};
      const Corners line = OnScreen(*walk_.edges[i], ends, 2);
      const Colour colour{76, static_cast<std::uint8_t>(i % 2 == 0 ? 255 : 204), 76};
      canvas_.SmoothLine(line[0], line[1], colour);
    }
    for (auto body = walk_.obstacles.rbegin(); body != walk_.obstacles.rend(); ++body) {
      DrawBody(**body, pictures::kWhite, kGrey);
    }
  }

  void DrawWalker(const Walker& walker) {
    for (int i = 0; i < 4; ++i) {
      const int lighter = i < 2 ? 25 : -25;
      DrawBody(*walker.legs[i], Shade(153, 76, 127, lighter), Shade(102, 51, 76, lighter));
    }
    DrawBody(*walker.hull, kWalkerHull, kWalkerHullEdge);
  }

  void DrawBody(const b2Body& body, Colour colour, Colour edge) {
    const auto& shape = static_cast<const b2PolygonShape&>(*body.GetFixtureList()->GetShape());
    Corners path = OnScreen(body, &shape.GetVertex(0), shape.GetVertexCount());
    Fill(path, colour);
    path.push_back(path[0]);
    if (!picture_.is_pettingzoos) canvas_.Lines(path, edge, 1, true);
    canvas_.Outline(path, edge);
  }

  void DrawFlag() {
    const auto [x, foot] = OnScreen(Walk::kStep * 3, Walk::kHeight);
    const auto scaled = [this](double pixels) { return pixels * scale_ / Walk::kScale; };
    const double top = foot + scaled(50);
    canvas_.SmoothLine({x, foot}, {x, top}, pictures::kBlack);
    const Corners cloth = {{x, top}, {x, top - scaled(10)}, {x + scaled(25), top - scaled(5)}};
    canvas_.Shape(cloth, kWalkerFlag);
    canvas_.Lines(cloth, pictures::kBlack, 1, true);
  }

  Canvas& canvas_;
  const WalkPicture& picture_;
  const Walk& walk_;
  const double scale_;
};

}  // namespace

// The reference draws the world from its beginning and shows its right end, so lines are cut where that
// begins. PettingZoo's may begin within the window, which is black beside what is drawn.
void WalkPicture::Draw(std::uint8_t* rgb) const {
  const double first = is_pettingzoos ? 1 - Walk::kViewWidth : 0;
  // It lies within the terrain, but for what a state that was made up may say.
  const double last = 32767 - Walk::kViewWidth;
  const double shown = std::min(std::max(first, scroll * scale + offset), last);
  const auto begin = static_cast<std::int64_t>(shown), from = std::max<std::int64_t>(begin, 0);
  const auto width = static_cast<std::int64_t>(Walk::kViewWidth + shown);
  std::vector<std::uint8_t> pixels(static_cast<std::size_t>(kSize.height * width * 3));
  Canvas canvas(pixels.data(), {kSize.height, width}, pictures::kBlack);
  canvas.CountFromOtherEnd();
  WalkPainter(&canvas, *this).Draw();
  canvas.CountFromOtherEnd();
  pictures::Picture window(rgb, kSize, pictures::kBlack);
  for (std::int64_t y = 0; y < kSize.height; ++y) {
    std::memcpy(window.At(from - begin, y), canvas.At(from, y), static_cast<std::size_t>(3 * (width - from)));
  }
}

}  // namespace torchrl_pool::box2d
