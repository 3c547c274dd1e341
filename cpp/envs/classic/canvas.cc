#include "canvas.h"

#include <algorithm>
#include <cmath>

namespace torchrl_pool::classic {
namespace {

constexpr int kSamples = 4;  // per pixel and direction

Point Offset(Point p, double distance, double angle) {
  return {p.x + distance * std::cos(angle), p.y + distance * std::sin(angle)};
}

}  // namespace

Canvas::Canvas(std::uint8_t* rgb, ImageSize size) : rgb_(rgb), size_(size) {
  std::fill_n(rgb, size.height * size.width * 3, std::uint8_t{255});
}

template <class Inside>
void Canvas::Fill(Point low, Point high, Colour colour, const Inside& inside) {
  const auto clip = [](double value, std::int64_t end) {
    return static_cast<std::int64_t>(std::clamp(value, 0.0, static_cast<double>(end)));
  };
  const std::int64_t x_end = clip(std::ceil(high.x), size_.width);
  const std::int64_t y_end = clip(std::ceil(high.y), size_.height);
  for (std::int64_t y = clip(std::floor(low.y), size_.height); y < y_end; ++y) {
    for (std::int64_t x = clip(std::floor(low.x), size_.width); x < x_end; ++x) {
      int hits = 0;
      for (int i = 0; i < kSamples * kSamples; ++i) {
        const double dx = (i % kSamples + 0.5) / kSamples;
        const double dy = (static_cast<double>(i / kSamples) + 0.5) / kSamples;
        hits += inside(Point{static_cast<double>(x) + dx, static_cast<double>(y) + dy});
      }
      std::uint8_t* pixel = rgb_ + ((size_.height - 1 - y) * size_.width + x) * 3;
      const std::uint8_t channels[] = {colour.red, colour.green, colour.blue};
      for (int c = 0; c < 3; ++c) {
        const int total = kSamples * kSamples;
        pixel[c] = static_cast<std::uint8_t>((pixel[c] * (total - hits) + channels[c] * hits) / total);
      }
    }
  }
}

void Canvas::Polygon(const std::vector<Point>& corners, Colour colour) {
  Point low = corners[0], high = corners[0];
  for (const Point& p : corners) {
    low = {std::min(low.x, p.x), std::min(low.y, p.y)};
    high = {std::max(high.x, p.x), std::max(high.y, p.y)};
  }
  Fill(low, high, colour, [&corners](Point p) {
    bool left = false, right = false;
    for (std::size_t i = 0; i < corners.size(); ++i) {
      const Point& a = corners[i];
      const Point& b = corners[(i + 1) % corners.size()];
      const double side = (b.x - a.x) * (p.y - a.y) - (b.y - a.y) * (p.x - a.x);
      left = left || side > 0;
      right = right || side < 0;
    }
    return !(left && right);
  });
}

void Canvas::Circle(Point centre, double radius, Colour colour) {
  Fill({centre.x - radius, centre.y - radius}, {centre.x + radius, centre.y + radius}, colour,
       [=](Point p) { return std::hypot(p.x - centre.x, p.y - centre.y) <= radius; });
}

void Canvas::Line(Point from, Point to, double width, Colour colour) {
  const double across = std::atan2(to.y - from.y, to.x - from.x) + std::acos(-1.0) / 2;
  Polygon({Offset(from, width / 2, across), Offset(to, width / 2, across), Offset(to, -width / 2, across),
           Offset(from, -width / 2, across)},
          colour);
}

void Canvas::Link(Point base, double angle, double length, double width, Colour colour) {
  const Point end = Offset(base, length, angle);
  Line(base, end, width, colour);
  Circle(base, width / 2, colour);
  Circle(end, width / 2, colour);
}

}  // namespace torchrl_pool::classic
