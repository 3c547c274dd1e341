#include <algorithm>
#include <cmath>
#include <cstdio>

#include "canvas.h"
#include "car_racing.h"
#include "digits.h"
#include "shrink.h"

namespace torchrl_pool::box2d {
namespace {

using pictures::Canvas;
using pictures::Colour;
using pictures::Corners;
using pictures::Point;

// Everything is drawn at this size, and then shrunk.
constexpr ImageSize kWindow{800, 1000};
constexpr double kWidth = 1000, kHeight = 800;
constexpr double kZoom = 2.7;
constexpr double kGrass = Race::kField / 20.0;  // width of a patch
constexpr Colour kWhite = pictures::kWhite, kBlack = pictures::kBlack, kCarRed{255, 0, 0};
constexpr Colour kCarHull{204, 0, 0}, kTyre{77, 77, 77}, kMud{102, 102, 0};

Colour Cut(const std::array<double, 3>& colour, double lighter = 0) {
  const auto channel = [&](double value) { return static_cast<std::uint8_t>(value + lighter); };
  return {channel(colour[0]), channel(colour[1]), channel(colour[2])};
}

class CarPainter {
 public:
  CarPainter(std::uint8_t* pixels, const Race& race)
      : race_(race),
        hull_(*race.car.hull()),
        zoom_(0.1 * Race::kScale * std::max(1 - race.time, 0.0) +
              kZoom * Race::kScale * std::min(race.time, 1.0)),
        rotated_(-static_cast<double>(hull_.GetAngle())),
        canvas_(pixels, kWindow, EndsOutOfSight() ? Cut(race.colours.field) : kBlack, 4) {
    const b2Vec2 place = hull_.GetPosition();
    const Point scroll =
        rotated_({-static_cast<double>(place.x) * zoom_, -static_cast<double>(place.y) * zoom_});
    moved_ = {kWidth / 2 + scroll.x, kHeight / 4 + scroll.y};
  }

  void Draw(double score, bool with_skid_marks) {
    canvas_.CountFromOtherEnd();
    DrawField();
    DrawRoad();
    if (with_skid_marks) DrawSkidMarks();
    for (const Car::Wheel& wheel : race_.car.wheels()) DrawWheel(wheel);
    DrawBody(hull_, kCarHull);
    canvas_.CountFromOtherEnd();
    DrawIndicators();
    char text[64];
    std::snprintf(text, sizeof text, "%04.0f", score);
    DrawNumber(&canvas_, text, 60, 750);
  }

 private:
  // Whether the field is all that can be seen under the rest.
  bool EndsOutOfSight() const {
    const double farthest = std::hypot(kWidth / 2, 3 * kHeight / 4) + kMargin;
    const b2Vec2 place = hull_.GetPosition();
    const double off = std::max(std::abs(place.x), std::abs(place.y));
    return off + farthest / zoom_ < Race::kField;
  }
  Point Place(Point point) const {
    const Point turned = rotated_(point);
    return {turned.x * zoom_ + moved_.x, turned.y * zoom_ + moved_.y};
  }
  // Draws what is not out of sight.
  void DrawQuad(const double (&x)[4], const double (&y)[4], Colour colour) {
    corners_.clear();
    bool is_left = true, is_right = true, is_below = true, is_above = true;
    for (int i = 0; i < 4; ++i) {
      const Point p = Place({x[i], y[i]});
      is_left = is_left && p.x < -kMargin;
      is_right = is_right && p.x > kWidth + kMargin;
      is_below = is_below && p.y < -kMargin;
      is_above = is_above && p.y > kHeight + kMargin;
      corners_.push_back(p);
    }
    if (!(is_left || is_right || is_below || is_above)) canvas_.Polygon(corners_, colour);
  }

  void DrawField() {
    constexpr double kEnd = Race::kField;
    if (!EndsOutOfSight()) {
      DrawQuad({kEnd, kEnd, -kEnd, -kEnd}, {kEnd, -kEnd, -kEnd, kEnd}, Cut(race_.colours.field));
    }
    const Colour colour = Cut(race_.colours.grass);
    for (int column = -20; column < 20; column += 2) {
      for (int row = -20; row < 20; row += 2) {
        const double left = kGrass * column + 0, right = kGrass * column + kGrass;
        const double low = kGrass * row + 0, high = kGrass * row + kGrass;
        DrawQuad({right, left, left, right}, {low, low, high, high}, colour);
      }
    }
  }

  void DrawRoad() {
    for (const Quad& quad : race_.quads) {
      Colour colour = quad.is_white ? kWhite : kCarRed;
      if (quad.tile >= 0) {
        const bool is_touched = race_.tiles[static_cast<std::size_t>(quad.tile)].is_touched;
        colour = Cut(race_.colours.road, is_touched ? 0 : 0.01 * (quad.tile % 3) * 255);
      }
      DrawQuad(quad.x, quad.y, colour);
    }
  }

  void DrawSkidMarks() {
    for (const auto& mark : race_.car.skid_marks()) {
      std::vector<Point> points;
      for (const b2Vec2& point : mark->points) points.push_back(Place({point.x, point.y}));
      canvas_.Lines(points, mark->on_grass ? kMud : kBlack, 2, false);
    }
  }

  // A polygon in coordinates of a body.
  void DrawPart(const b2Body& body, const b2Vec2* points, int count, Colour colour) {
    corners_.clear();
    for (int i = 0; i < count; ++i) {
      const b2Vec2 place = body.GetWorldPoint(points[i]);
      corners_.push_back(Place({place.x, place.y}));
    }
    canvas_.Shape(corners_, colour);
  }
  void DrawBody(const b2Body& body, Colour colour) {
    for (const b2Fixture* fixture = body.GetFixtureList(); fixture; fixture = fixture->GetNext()) {
      const auto& shape = static_cast<const b2PolygonShape&>(*fixture->GetShape());
      DrawPart(body, &shape.GetVertex(0), shape.GetVertexCount(), colour);
    }
  }
  void DrawWheel(const Car::Wheel& wheel) {
    DrawBody(*wheel.body, kBlack);
    // What shows that it turns.
    const double first = wheel.phase, second = wheel.phase + 1.2;
    const auto sign = [](double value) { return static_cast<double>((value > 0) - (value < 0)); };
    const bool first_is_below = std::sin(first) > 0, second_is_below = std::sin(second) > 0;
    if (first_is_below && second_is_below) return;
    const double from = first_is_below ? sign(std::cos(first)) : std::cos(first);
    const double to = second_is_below ? sign(std::cos(second)) : std::cos(second);
    const auto f = [](double value) { return static_cast<float>(value); };
    const float right = f(Car::kWheelWidth * Car::kSize);
    const float low = f(Car::kWheelRadius * from * Car::kSize), high = f(Car::kWheelRadius * to * Car::kSize);
    const b2Vec2 points[4] = {{-right, low}, {right, low}, {right, high}, {-right, high}};
    DrawPart(*wheel.body, points, 4, kTyre);
  }

  void DrawIndicators() {
    constexpr double kColumn = kWidth / 40.0, kRow = kHeight / 40.0;
    constexpr double kBottom = kHeight - 5 * kRow;
    canvas_.Shape({{kWidth, kHeight}, {kWidth, kBottom}, {0, kBottom}, {0, kHeight}}, kBlack);
    const auto vertical = [&](int place, double value, double scale, Colour colour) {
      if (!(std::abs(value) > 1e-4)) return;
      const double left = place * kColumn, right = (place + 1) * kColumn, foot = kHeight - kRow;
      const double top = kHeight - (kRow + kRow * (scale * value));
      canvas_.Shape({{left, top}, {right, top}, {right, foot}, {left, foot}}, colour);
    };
    const auto horizontal = [&](int place, double value, double scale, Colour colour) {
      if (!(std::abs(value) > 1e-4)) return;
      const double from = place * kColumn, to = (place + scale * value) * kColumn;
      constexpr double kTop = kHeight - 4 * kRow, kFoot = kHeight - 2 * kRow;
      canvas_.Shape({{from, kTop}, {to, kTop}, {to, kFoot}, {from, kFoot}}, colour);
    };
    const b2Vec2 velocity = hull_.GetLinearVelocity();
    const double right = velocity.x, up = velocity.y;
    vertical(5, std::sqrt(right * right + up * up), 0.02, kWhite);
    const auto& wheels = race_.car.wheels();
    for (int i = 0; i < 4; ++i) {
      const auto red = static_cast<std::uint8_t>(i < 2 ? 0 : 51);
      vertical(7 + i, wheels[static_cast<std::size_t>(i)].omega, 0.01, {red, 0, 255});
    }
    horizontal(20, wheels[0].joint->GetJointAngle(), -10.0, {0, 255, 0});
    horizontal(30, hull_.GetAngularVelocity(), -0.8, kCarRed);
  }

  static constexpr double kMargin = 4;  // of pixels that lines may be wider than their corners

  const Race& race_;
  const b2Body& hull_;
  const double zoom_;
  const pictures::Rotation rotated_;
  Canvas canvas_;
  Point moved_{};
  Corners corners_;
};

void Draw(std::uint8_t* rgb, const Race& race, double score, bool with_skid_marks, Shrinker* shrinker) {
  // One for each thread: an env of its own would need 3 MB.
  thread_local std::vector<std::uint8_t> pixels(static_cast<std::size_t>(4 * kWindow.height * kWindow.width));
  CarPainter(pixels.data(), race).Draw(score, with_skid_marks);
  shrinker->Run(pixels.data(), rgb);
}

}  // namespace

void DrawRaceView(std::uint8_t* rgb, const Race& race, double score) {
  thread_local Shrinker shrinker(kWindow, kRaceView);
  Draw(rgb, race, score, false, &shrinker);
}

void DrawRacePicture(std::uint8_t* rgb, const Race& race, double score) {
  thread_local Shrinker shrinker(kWindow, kRacePicture);
  Draw(rgb, race, score, true, &shrinker);
}

}  // namespace torchrl_pool::box2d
