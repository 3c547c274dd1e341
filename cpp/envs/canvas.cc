#include "canvas.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <numbers>

namespace torchrl_pool::pictures {

Rotation::Rotation(double angle) {
  constexpr double kRight = std::numbers::pi / 2, kEpsilon = 1e-6;
  angle = std::fmod(angle, 4 * kRight);
  if (angle < 0) angle += 4 * kRight;
  if (std::fmod(angle + kEpsilon, kRight) < 2 * kEpsilon) {
    quarters_ = static_cast<int>((angle + kEpsilon) / kRight) % 4;
  } else {
    sin_ = std::sin(angle);
    cos_ = std::cos(angle);
  }
}

Point Rotation::operator()(Point point) const {
  switch (quarters_) {
    case -1:
      return {cos_ * point.x - sin_ * point.y, sin_ * point.x + cos_ * point.y};
    case 1:
      return {-point.y, point.x};
    case 2:
      return {-point.x, -point.y};
    case 3:
      return {point.y, -point.x};
    default:
      return point;
  }
}

Corners RotatedRectangle(Point low, Point high, double angle) {
  Corners corners = {low, {low.x, high.y}, high, {high.x, low.y}};
  const Rotation rotated(angle);
  for (Point& corner : corners) corner = rotated(corner);
  return corners;
}

int Canvas::Cut(double value) {
  return std::isnan(value) ? -32768 : static_cast<int>(std::clamp(value, -32768.0, 32767.0));
}

std::vector<Canvas::Pixel> Canvas::Cut(const std::vector<Point>& points) {
  std::vector<Pixel> pixels;
  pixels.reserve(points.size());
  for (const Point& point : points) pixels.push_back({Cut(point.x), Cut(point.y)});
  return pixels;
}

void Canvas::Blend(int x, int y, Colour colour, int alpha) {
  if (!Contains(x, y)) return;
  std::uint8_t* pixel = At(x, y);
  const std::uint8_t channels[] = {colour.red, colour.green, colour.blue};
  for (int c = 0; c < 3; ++c) {
    pixel[c] = static_cast<std::uint8_t>(pixel[c] + (((channels[c] - pixel[c]) * alpha) >> 8));
  }
}

void Canvas::Outline(const Corners& corners, Colour colour) {
  const std::vector<Pixel> pixels = Cut(corners);
  for (std::size_t i = 0; i < pixels.size(); ++i) Edge(pixels[i], pixels[(i + 1) % pixels.size()], colour);
}

void Canvas::Polygon(const Corners& corners, Colour colour) {
  Outline(corners, colour);
  FillPolygon(Cut(corners), colour);
}

// Cohen and Sutherland's, in the arithmetic of SDL_gfx; it may swap the ends. False: nothing is visible.
bool Canvas::Clip(Pixel* from, Pixel* to) const {
  enum { kLeft = 1, kRight = 2, kBottom = 4, kTop = 8 };
  const int right = static_cast<int>(width()) - 1, bottom = static_cast<int>(height()) - 1;
  const auto side = [=](Pixel p) {
    return (p.x < 0 ? kLeft : p.x > right ? kRight : 0) | (p.y < 0 ? kTop : p.y > bottom ? kBottom : 0);
  };
  while (side(*from) != 0 || side(*to) != 0) {
    if ((side(*from) & side(*to)) != 0) return false;
    if (side(*from) == 0) std::swap(*from, *to);
    const int outside = side(*from);
    const bool is_vertical = from->x == to->x;
    const float slope =
        is_vertical ? 1.0f : static_cast<float>(to->y - from->y) / static_cast<float>(to->x - from->x);
    if ((outside & (kLeft | kRight)) != 0) {
      const int x = (outside & kLeft) != 0 ? 0 : right;
      from->y += static_cast<int>(static_cast<float>(x - from->x) * slope);
      from->x = x;
    } else {
      const int y = (outside & kBottom) != 0 ? bottom : 0;
      if (!is_vertical) from->x += static_cast<int>(static_cast<float>(y - from->y) / slope);
      from->y = y;
    }
  }
  return true;
}

// A side of a polygon: Wu's line, without its last pixel.
void Canvas::Edge(Pixel from, Pixel to, Colour colour) {
  if (!Clip(&from, &to)) return;
  const auto [top, end] = from.y > to.y ? std::pair{to, from} : std::pair{from, to};
  const int dx = std::abs(end.x - top.x), dy = end.y - top.y;
  if (dx == 0) return VerticalLine(top.x, top.y, end.y, colour);
  if (dy == 0) return HorizontalLine(from.x, to.x, from.y, colour);
  Set(from.x, from.y, colour);

  const bool is_steep = dy > dx;
  const int length = is_steep ? dy : dx, xdir = end.x >= top.x ? 1 : -1;
  const std::uint32_t step = static_cast<std::uint32_t>(((is_steep ? dx : dy) << 16) / length) << 16;
  std::uint32_t fraction = 0;
  Pixel pixel = top;
  for (int i = 1; i < length; ++i) {
    const std::uint32_t before = fraction;
    fraction += step;
    const int carry = fraction <= before;
    pixel.x += is_steep ? carry * xdir : xdir;
    pixel.y += is_steep ? 1 : carry;
    const int weight = static_cast<int>(fraction >> 24);
    const Pixel beside = is_steep ? Pixel{pixel.x + xdir, pixel.y} : Pixel{pixel.x, pixel.y + 1};
    Blend(pixel.x, pixel.y, colour, 255 * (255 - weight) >> 8);
    Blend(beside.x, beside.y, colour, 255 * weight >> 8);
  }
}

void Canvas::FillPolygon(const std::vector<Pixel>& corners, Colour colour) {
  const auto [lowest, highest] =
      std::minmax_element(corners.begin(), corners.end(), [](Pixel a, Pixel b) { return a.y < b.y; });
  const int last = highest->y, end = std::min(last, static_cast<int>(height()) - 1);
  std::vector<std::int64_t> crossings;  // in 65536ths of a pixel
  for (int y = std::max(lowest->y, 0); y <= end; ++y) {
    crossings.clear();
    for (std::size_t i = 0; i < corners.size(); ++i) {
      Pixel upper = corners[i == 0 ? corners.size() - 1 : i - 1], lower = corners[i];
      if (upper.y == lower.y) continue;
      if (upper.y > lower.y) std::swap(upper, lower);
      const bool crosses = y >= upper.y && y < lower.y;
      if (!crosses && !(y == last && y > upper.y && y <= lower.y)) continue;
      const std::int64_t part = std::int64_t{65536} * (y - upper.y) / (lower.y - upper.y);
      crossings.push_back(part * (lower.x - upper.x) + std::int64_t{65536} * upper.x);
    }
    std::sort(crossings.begin(), crossings.end());
    const auto rounded = [](std::int64_t x) { return (x >> 16) + ((x & 32768) >> 15); };
    for (std::size_t i = 0; i + 1 < crossings.size(); i += 2) {
      HorizontalLine(rounded(crossings[i] + 1), rounded(crossings[i + 1] - 1), y, colour);
    }
  }
}

void Canvas::Circle(Point centre, int radius, Colour colour) {
  const Pixel pixel{Cut(centre.x), Cut(centre.y)};
  CircleEdge(pixel, radius, colour);
  FillCircle(pixel, radius, colour);
}

// One eighth after the other, each mirrored into all four quarters.
void Canvas::CircleEdge(Pixel centre, int radius, Colour colour) {
  const int square = radius * radius;
  const int eighth = static_cast<int>(std::lrint(square / std::sqrt(2.0 * square)));
  const auto mirrored = [&](int x, int y, int alpha) {
    for (const int row : {y, 2 * centre.y - y}) {
      for (const int column : {x, 2 * centre.x - x}) Blend(column, row, colour, alpha);
    }
  };
  const auto weight = [](int distance, int slope) {
    const float share =
        slope == 0 ? 1.0f : static_cast<float>(std::abs(distance)) / static_cast<float>(std::abs(slope));
    return static_cast<int>(std::min(share, 1.0f) * 255);
  };
  int t = 0, s = -2 * square * radius, d = 0;
  int x = centre.x, y = centre.y - radius;
  for (const int row : {y, 2 * centre.y - y}) Set(x, row, colour);

  for (int i = 1; i <= eighth; ++i) {
    --x;
    d += t - square;
    int beside = y - 1;
    if (d < 0) {
      const bool goes_down = d - s - square <= 0;
      const bool stays = !goes_down && 2 * d - s - square >= 0;
      beside = stays ? y + 1 : goes_down ? y + 2 : y;
      if (!stays) {
        ++y;
        d -= s + square;
        s += 2 * square;
      }
    }
    t -= 2 * square;
    const int alpha = weight(d, s);
    mirrored(x, y, 255 * (255 - alpha) >> 8);
    mirrored(x, beside, 255 * alpha >> 8);
  }
  for (int i = 1; i <= eighth; ++i) {
    ++y;
    d -= s + square;
    int beside = x + 1;
    if (d > 0) {
      const bool goes_left = d + t - square >= 0;
      const bool stays = !goes_left && 2 * d + t - square <= 0;
      beside = stays ? x - 1 : goes_left ? x - 2 : x;
      if (!stays) {
        --x;
        d += t - square;
        t -= 2 * square;
      }
    }
    s += 2 * square;
    const int alpha = weight(d, t);
    mirrored(x, y, 255 * (255 - alpha) >> 8);
    mirrored(beside, y, 255 * alpha >> 8);
  }
}

void Canvas::FillCircle(Pixel centre, int radius, Colour colour) {
  int wide = radius, narrow = 0, error = 1 - radius, along = 3, across = 5 - 2 * radius;
  const auto rows = [&](int half_width, int distance) {
    for (const int row : {centre.y - distance, centre.y + distance}) {
      HorizontalLine(centre.x - half_width, centre.x + half_width, row, colour);
    }
  };
  for (int drawn = -1; narrow <= wide;) {
    if (wide != drawn) rows(narrow, wide);
    if (wide != narrow) rows(wide, narrow);
    drawn = wide;
    if (error < 0) {
      error += along;
      across += 2;
    } else {
      error += across;
      across += 4;
      --wide;
    }
    along += 2;
    ++narrow;
  }
}

}  // namespace torchrl_pool::pictures
