// pygame.draw's part of the canvas.
#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "canvas.h"

namespace torchrl_pool::pictures {
namespace {

// Visits the pixels of a line, both ends among them.
template <class Visit>
void Bresenham(int x, int y, int to_x, int to_y, const Visit& visit) {
  const int dx = std::abs(to_x - x), dy = std::abs(to_y - y);
  int error = (dx > dy ? dx : -dy) / 2;
  while (x != to_x || y != to_y) {
    visit(x, y);
    const int before = error;
    if (before > -dx) {
      error -= dy;
      x += to_x > x ? 1 : -1;
    }
    if (before < dy) {
      error += dx;
      y += to_y > y ? 1 : -1;
    }
  }
  visit(x, y);
}

}  // namespace

void Canvas::Mix(int x, int y, Colour colour, float brightness) {
  if (!Contains(x, y)) return;
  std::uint8_t* pixel = At(x, y);
  const std::uint8_t channels[] = {colour.red, colour.green, colour.blue};
  for (int c = 0; c < 3; ++c) {
    pixel[c] = static_cast<std::uint8_t>(brightness * channels[c] + (1 - brightness) * pixel[c]);
  }
}

void Canvas::Shape(const Corners& corners, Colour colour) {
  const std::vector<Pixel> pixels = Cut(corners);
  if (pixels.size() == 3) return FillTriangle(pixels, colour);
  const auto [highest, lowest] =
      std::minmax_element(pixels.begin(), pixels.end(), [](Pixel a, Pixel b) { return a.y < b.y; });
  const int top = highest->y, bottom = lowest->y;
  if (top == bottom) {
    const auto [left, right] =
        std::minmax_element(pixels.begin(), pixels.end(), [](Pixel a, Pixel b) { return a.x < b.x; });
    return HorizontalLine(left->x, right->x, top, colour);
  }
  const int end = std::min(bottom, static_cast<int>(height()) - 1);
  std::vector<int> crossings;
  for (int y = std::max(top, 0); y <= end; ++y) {
    crossings.clear();
    for (std::size_t i = 0; i < pixels.size(); ++i) {
      Pixel upper = pixels[i == 0 ? pixels.size() - 1 : i - 1], lower = pixels[i];
      if (upper.y > lower.y) std::swap(upper, lower);
      const bool crosses = y >= upper.y && y < lower.y;
      const bool ends_here = y == bottom && lower.y == bottom && upper.y != bottom;
      if (!crosses && !ends_here) continue;
      const float part =
          static_cast<float>((y - upper.y) * (lower.x - upper.x)) / static_cast<float>(lower.y - upper.y);
      crossings.push_back(static_cast<int>(crossings.size() % 2 == 0 ? std::floor(part) : std::ceil(part)) +
                          upper.x);
    }
    std::sort(crossings.begin(), crossings.end());
    for (std::size_t i = 0; i + 1 < crossings.size(); i += 2)
      HorizontalLine(crossings[i], crossings[i + 1], y, colour);
  }
  for (std::size_t i = 0; i < pixels.size(); ++i) {
    const Pixel from = pixels[i == 0 ? pixels.size() - 1 : i - 1], to = pixels[i];
    if (from.y == to.y && to.y > top && to.y < bottom) HorizontalLine(to.x, from.x, to.y, colour);
  }
}

void Canvas::FillTriangle(std::vector<Pixel> corners, Colour colour) {
  auto &a = corners[0], &b = corners[1], &c = corners[2];
  if (b.y < a.y) std::swap(a, b);
  if (c.y < b.y) {
    std::swap(b, c);
    if (b.y < a.y) std::swap(a, b);
  }
  if (a.y == b.y && b.y == c.y && a.x == b.x && b.x != c.x) std::swap(b, c);
  const auto slope = [](Pixel from, Pixel to) {
    return static_cast<float>((to.x - from.x) / ((to.y - from.y) + 1e-17));
  };
  const float whole = slope(a, c), upper = slope(a, b), lower = slope(b, c);
  const auto along = [](Pixel from, int y, float way) {
    return from.x + static_cast<int>(static_cast<float>(y - from.y) * way);
  };
  for (int y = a.y; y <= c.y; ++y) {
    HorizontalLine(along(a, y, whole), y < b.y ? along(a, y, upper) : along(b, y, lower), y, colour);
  }
}

void Canvas::Line(Point from, Point to, Colour colour, int width) { Lines({from, to}, colour, width, false); }

void Canvas::Lines(const std::vector<Point>& points, Colour colour, int width, bool is_closed) {
  const std::vector<Pixel> pixels = Cut(points);
  const auto draw = [&](Pixel from, Pixel to) {
    width == 1 ? ThinLine(from, to, colour) : ThickLine(from, to, width, colour);
  };
  for (std::size_t i = 1; i < pixels.size(); ++i) draw(pixels[i - 1], pixels[i]);
  if (is_closed && pixels.size() > 2) draw(pixels.back(), pixels.front());
}

void Canvas::ThinLine(Pixel from, Pixel to, Colour colour) {
  Bresenham(from.x, from.y, to.x, to.y, [&](int x, int y) { Set(x, y, colour); });
}

void Canvas::ThickLine(Pixel from, Pixel to, int width, Colour colour) {
  const int after = width / 2, before = after - 1 + width % 2;
  const bool is_steep = std::abs(from.x - to.x) <= std::abs(from.y - to.y);
  Bresenham(from.x, from.y, to.x, to.y, [&](int x, int y) {
    is_steep ? HorizontalLine(x - before, x + after, y, colour)
             : VerticalLine(x, y - before, y + after, colour);
  });
}

template <class Visit>
void Canvas::VisitRows(Point centre, int radius, const Visit& visit) {
  const int cx = Cut(centre.x), cy = Cut(centre.y);
  const auto rows = [&](int half_width, int distance) {
    for (const int y : {cy + distance - 1, cy - distance}) visit(cx - half_width, cx + half_width - 1, y);
  };
  int error = 1 - radius, across = -2 * radius, along = 0, narrow = 0, wide = radius;
  while (narrow < wide) {
    if (error >= 0) {
      --wide;
      across += 2;
      error += across;
    }
    ++narrow;
    along += 2;
    error += along + 1;
    rows(narrow, wide);
    rows(wide, narrow);
  }
}

void Canvas::Disc(Point centre, double radius, Colour colour) {
  VisitRows(centre, Cut(radius), [&](int left, int right, int y) { HorizontalLine(left, right, y, colour); });
}

void Canvas::Ring(Point centre, double radius, Colour colour) {
  if (Cut(radius) == 1) return Disc(centre, radius, colour);
  VisitRows(centre, Cut(radius), [&](int left, int right, int y) {
    Set(left, y, colour);
    Set(right, y, colour);
  });
}

bool Canvas::SmoothSpan::IsSteep() const { return std::fabs(x2 - x1) < std::fabs(y2 - y1); }
bool Canvas::SmoothSpan::EndsOnPixel() const { return std::round(x2) == x2 && std::round(y2) == y2; }

void Canvas::SmoothLine(Point from, Point to, Colour colour) {
  const auto f = [](double v) { return static_cast<float>(v); };
  DrawSmooth({f(from.x), f(from.y), f(to.x), f(to.y)}, {.first = true, .second = true, .extra = false},
             colour);
}

void Canvas::SmoothLines(const std::vector<Point>& points, Colour colour, bool is_closed) {
  std::vector<SmoothSpan> lines;
  const std::size_t count = points.size() - (is_closed && points.size() > 2 ? 0 : 1);
  for (std::size_t i = 0; i < count; ++i) {
    const Point &from = points[i], &to = points[(i + 1) % points.size()];
    lines.push_back({static_cast<float>(from.x), static_cast<float>(from.y), static_cast<float>(to.x),
                     static_cast<float>(to.y)});
  }
  // pygame compares the first line with the second from another place than the others.
  const auto is_steep_behind = [](const SmoothSpan& line, const SmoothSpan& next) {
    return std::fabs(next.x2 - line.x2) < std::fabs(next.y2 - line.y1);
  };
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const SmoothSpan& line = lines[i];
    const bool turns = i == 0 ? line.IsSteep() && lines.size() > 1 && !is_steep_behind(line, lines[1])
                              : line.IsSteep() != lines[i - 1].IsSteep();
    const Ends ends{.first = line.EndsOnPixel() || (i == 0 && !is_closed),
                    .second = line.EndsOnPixel() || (i + 1 == lines.size() && !is_closed),
                    .extra = turns};
    DrawSmooth(line, ends, colour);
  }
}

bool Canvas::ClipSmooth(SmoothSpan* line, float gradient, float left, float right, float top, float bottom) {
  if (line->x1 < left) {
    line->y1 += gradient * (left - line->x1);
    line->x1 = left;
  }
  if (line->x2 > right) {
    line->y2 += gradient * (right - line->x2);
    line->x2 = right;
  }
  const bool falls = gradient > 0;  // from the first end to the second
  float &upper_x = falls ? line->x1 : line->x2, &upper_y = falls ? line->y1 : line->y2;
  float &lower_x = falls ? line->x2 : line->x1, &lower_y = falls ? line->y2 : line->y1;
  if (lower_y <= top || upper_y >= bottom) return false;
  if (upper_y < top) {
    upper_x += (top - upper_y) / gradient;
    upper_y = top;
  }
  if (lower_y > bottom) {
    lower_x += (bottom - lower_y) / gradient;
    lower_y = bottom;
  }
  return true;
}

void Canvas::DrawSmooth(SmoothSpan line, Ends ends, Colour colour) {
  float dx = line.x2 - line.x1, dy = line.y2 - line.y1;
  if (std::fabs(dx) < 0.0001 && std::fabs(dy) < 0.0001) {
    return Mix(static_cast<int>(std::floor(line.x1 + 0.5)), static_cast<int>(std::floor(line.y1 + 0.5)),
               colour, 1);
  }
  float right = static_cast<float>(width()), bottom = static_cast<float>(height());
  const bool is_steep = std::fabs(dx) < std::fabs(dy);
  if (is_steep) {
    std::swap(line.x1, line.y1);
    std::swap(line.x2, line.y2);
    std::swap(dx, dy);
    std::swap(right, bottom);
  }
  if (dx < 0) {
    std::swap(line.x1, line.x2);
    std::swap(line.y1, line.y2);
    dx = -dx;
    dy = -dy;
  }
  constexpr float kFirst = -1;  // one pixel before the picture
  if (line.x2 <= kFirst || line.x1 >= right) return;
  const float gradient = dy / dx;
  if (!ClipSmooth(&line, gradient, kFirst, right, kFirst, bottom)) return;
  line.y1 += 1.0f;  // one pixel down, so that nothing is negative: drawn one higher
  line.y2 += 1.0f;
  const auto put = [&](int along, int across, float brightness) {
    is_steep ? Mix(across, along, colour, brightness) : Mix(along, across, colour, brightness);
  };
  // The two pixels that share the line at one place.
  const auto share = [&](int along, float across, float gap) {
    const int below = static_cast<int>(across);
    const float part = across - static_cast<float>(below);
    if (static_cast<float>(below) < across) put(along, below, part * gap);
    put(along, below - 1, (1 - part) * gap);
  };
  int first = static_cast<int>(line.x1);
  float across = line.y1 + gradient * (static_cast<float>(first) - line.x1);
  if ((ends.first || ends.extra) && line.x2 > kFirst + 1) {
    share(first, across, 1 + static_cast<float>(first) - line.x1);
    across += gradient;
    ++first;
  }
  if (!ends.first) {
    first = static_cast<int>(std::ceil(line.x1));
    across = line.y1 + gradient * (static_cast<float>(first) - line.x1);
  }
  const int last = static_cast<int>(std::ceil(line.x2));
  if ((ends.second || ends.extra) && line.x1 < right - 1) {
    share(last, line.y2 + gradient * (static_cast<float>(last) - line.x2),
          1 - static_cast<float>(last) + line.x2);
  }
  for (int x = first; x < last; ++x) {
    const int y = static_cast<int>(across);
    const float brightness = 1 - across + static_cast<float>(y);
    put(x, y - 1, brightness);
    if (static_cast<float>(y) < across) put(x, y, 1 - brightness);
    across += gradient;
  }
}

}  // namespace torchrl_pool::pictures
