#include "tiles.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <numbers>

#include "view.h"

namespace torchrl_pool::minigrid {
namespace {

constexpr int kFiner = 3;  // a tile is drawn so many times as fine as it is shown
constexpr int kNoAgent = 4;
constexpr int kLooks = (kLava + 1) * kColors * kStates;  // of things; those that cannot be are left black

struct Rgb {
  double red, green, blue;
  Rgb operator*(double factor) const { return {red * factor, green * factor, blue * factor}; }
};
constexpr Rgb kBlack{0, 0, 0},
    kRgb[kColors] = {{255, 0, 0}, {0, 255, 0}, {0, 0, 255}, {112, 39, 195}, {255, 255, 0}, {100, 100, 100}};

// A tile being drawn; coordinates go from 0 to 1.
class Sketch {
 public:
  explicit Sketch(int size) : side_(size * kFiner), pixels_(static_cast<std::size_t>(side_ * side_ * 3)) {}

  template <class Shape>
  void Fill(const Shape& shape, Rgb color) {
    std::uint8_t* pixel = pixels_.data();
    for (int row = 0; row < side_; ++row) {
      for (int column = 0; column < side_; ++column, pixel += 3) {
        if (!shape((column + 0.5) / side_, (row + 0.5) / side_)) continue;
        pixel[0] = static_cast<std::uint8_t>(color.red);
        pixel[1] = static_cast<std::uint8_t>(color.green);
        pixel[2] = static_cast<std::uint8_t>(color.blue);
      }
    }
  }
  void LightUp() {
    for (auto& value : pixels_) value = static_cast<std::uint8_t>(value + 0.3 * (255 - value));
  }
  // Means of squares, of rows first, in the order and with the roundings of NumPy's.
  void Shrink(std::uint8_t* rgb) const {
    const int size = side_ / kFiner;
    for (int row = 0; row < size; ++row) {
      for (int column = 0; column < size; ++column) {
        for (int channel = 0; channel < 3; ++channel) {
          double sum = 0;
          for (int y = 0; y < kFiner; ++y) {
            int line = 0;
            for (int x = 0; x < kFiner; ++x) {
              const int at = ((row * kFiner + y) * side_ + column * kFiner + x) * 3 + channel;
              line += pixels_[static_cast<std::size_t>(at)];
            }
            sum += static_cast<double>(line) / kFiner;
          }
          *rgb++ = static_cast<std::uint8_t>(sum / kFiner);
        }
      }
    }
  }

 private:
  const int side_;
  std::vector<std::uint8_t> pixels_;
};

auto Rectangle(double left, double right, double top, double bottom) {
  return [=](double x, double y) { return x >= left && x <= right && y >= top && y <= bottom; };
}
const auto kWhole = Rectangle(0, 1, 0, 1);

auto Circle(double cx, double cy, double r) {
  return [=](double x, double y) { return (x - cx) * (x - cx) + (y - cy) * (y - cy) <= r * r; };
}

// The reference keeps ends and directions of lines and triangles in single precision.
auto Line(double x0, double y0, double x1, double y1, double r) {
  const auto fx = static_cast<float>(x0), fy = static_cast<float>(y0);
  float dx = static_cast<float>(x1) - fx, dy = static_cast<float>(y1) - fy;
  const float length = std::sqrt(dx * dx + dy * dy);
  dx /= length;
  dy /= length;
  const auto near =
      Rectangle(std::min(x0, x1) - r, std::max(x0, x1) + r, std::min(y0, y1) - r, std::max(y0, y1) + r);
  return [=](double x, double y) {
    if (!near(x, y)) return false;
    const double along = std::clamp<double>((x - fx) * dx + (y - fy) * dy, 0, length);
    const double across = x - (fx + along * dx), down = y - (fy + along * dy);
    return std::sqrt(across * across + down * down) <= r;
  };
}

// The agent, who looks right.
bool IsAgent(double x, double y) {
  const float ax = 0.12f, ay = 0.19f, v0x = 0.12f - ax, v0y = 0.81f - ay, v1x = 0.87f - ax, v1y = 0.5f - ay;
  const float dot00 = v0x * v0x + v0y * v0y, dot01 = v0x * v1x + v0y * v1y, dot11 = v1x * v1x + v1y * v1y;
  const double v2x = x - ax, v2y = y - ay, dot02 = v0x * v2x + v0y * v2y, dot12 = v1x * v2x + v1y * v2y;
  const float scale = 1 / (dot00 * dot11 - dot01 * dot01);
  const double u = (dot11 * dot02 - dot01 * dot12) * scale, v = (dot00 * dot12 - dot01 * dot02) * scale;
  return u >= 0 && v >= 0 && u + v < 1;
}

void DrawDoor(Sketch& sketch, Rgb color, State state) {
  if (state == kOpen) {
    sketch.Fill(Rectangle(0.88, 1.0, 0.0, 1.0), color);
    sketch.Fill(Rectangle(0.92, 0.96, 0.04, 0.96), kBlack);
  } else if (state == kLocked) {
    sketch.Fill(kWhole, color);
    sketch.Fill(Rectangle(0.06, 0.94, 0.06, 0.94), color * 0.45);
    sketch.Fill(Rectangle(0.52, 0.75, 0.5, 0.56), color);
  } else {
    sketch.Fill(kWhole, color);
    sketch.Fill(Rectangle(0.04, 0.96, 0.04, 0.96), kBlack);
    sketch.Fill(Rectangle(0.08, 0.92, 0.08, 0.92), color);
    sketch.Fill(Rectangle(0.12, 0.88, 0.12, 0.88), kBlack);
    sketch.Fill(Circle(0.75, 0.5, 0.08), color);
  }
}

void DrawKey(Sketch& sketch, Rgb color) {
  sketch.Fill(Rectangle(0.5, 0.63, 0.31, 0.88), color);
  sketch.Fill(Rectangle(0.38, 0.5, 0.59, 0.66), color);
  sketch.Fill(Rectangle(0.38, 0.5, 0.81, 0.88), color);
  sketch.Fill(Circle(0.56, 0.28, 0.19), color);
  sketch.Fill(Circle(0.56, 0.28, 0.064), kBlack);
}

void DrawLava(Sketch& sketch) {
  sketch.Fill(kWhole, {255, 128, 0});
  for (int i = 0; i < 3; ++i) {
    const double low = 0.3 + 0.2 * i, high = 0.4 + 0.2 * i;
    sketch.Fill(Line(0.1, low, 0.3, high, 0.03), kBlack);
    sketch.Fill(Line(0.3, high, 0.5, low, 0.03), kBlack);
    sketch.Fill(Line(0.5, low, 0.7, high, 0.03), kBlack);
    sketch.Fill(Line(0.7, high, 0.9, low, 0.03), kBlack);
  }
}

void DrawThing(Sketch& sketch, const Thing& thing) {
  const Rgb color = kRgb[thing.color];
  switch (thing.type) {
    case kFloor:
      return sketch.Fill(Rectangle(0.031, 1, 0.031, 1), color * 0.5);
    case kDoor:
      return DrawDoor(sketch, color, thing.state);
    case kKey:
      return DrawKey(sketch, color);
    case kBall:
      return sketch.Fill(Circle(0.5, 0.5, 0.31), color);
    case kBox:
      sketch.Fill(Rectangle(0.12, 0.88, 0.12, 0.88), color);
      sketch.Fill(Rectangle(0.18, 0.82, 0.18, 0.82), kBlack);
      return sketch.Fill(Rectangle(0.16, 0.84, 0.47, 0.53), color);
    case kLava:
      return DrawLava(sketch);
    default:
      return sketch.Fill(kWhole, color);  // walls, goals
  }
}

void DrawAgent(Sketch& sketch, int direction) {
  const double angle = 0.5 * std::numbers::pi * direction, cos = std::cos(-angle), sin = std::sin(-angle);
  sketch.Fill(
      [=](double x, double y) {
        x -= 0.5;
        y -= 0.5;
        return IsAgent(0.5 + x * cos - y * sin, 0.5 + y * cos + x * sin);
      },
      kRgb[kRed]);
}

// 0: nothing.
int LookOf(const World& world, Id id) {
  if (id == kNothing) return 0;
  const Thing& thing = world.thing(id);
  return (thing.type * kColors + thing.color) * kStates + thing.state;
}
int TileOf(int look, int direction, bool lit) { return (look * (kNoAgent + 1) + direction) * 2 + lit; }

}  // namespace

const Tiles& Tiles::Of(int size) {
  static std::mutex& mutex = *new std::mutex;
  static auto& tiles = *new std::map<int, std::unique_ptr<const Tiles>>;
  const std::lock_guard lock(mutex);
  auto& found = tiles[size];
  if (!found) found.reset(new Tiles(size));
  return *found;
}

Tiles::Tiles(int size)
    : size_(size),
      pixels_(static_cast<std::size_t>(TileOf(kLooks, 0, false)) *
              static_cast<std::size_t>(size * size * 3)) {
  for (int look = 0; look < kLooks; ++look) {
    const Thing thing{static_cast<Type>(look / (kStates * kColors)),
                      static_cast<Color>(look / kStates % kColors), static_cast<State>(look % kStates)};
    if (look > 0 && !thing.IsValid()) continue;
    Sketch bare(size);
    bare.Fill(Rectangle(0, 0.031, 0, 1), kRgb[kGrey]);
    bare.Fill(Rectangle(0, 1, 0, 0.031), kRgb[kGrey]);
    if (look > 0) DrawThing(bare, thing);
    for (int direction = 0; direction <= kNoAgent; ++direction) {
      Sketch sketch = bare;
      if (direction != kNoAgent) DrawAgent(sketch, direction);
      for (const bool lit : {false, true}) {
        if (lit) sketch.LightUp();
        sketch.Shrink(&pixels_[static_cast<std::size_t>(TileOf(look, direction, lit)) *
                               static_cast<std::size_t>(size * size * 3)]);
      }
    }
  }
}

const std::uint8_t* Tiles::Get(const World& world, Id id, int direction, bool lit) const {
  const auto tile = static_cast<std::size_t>(TileOf(LookOf(world, id), direction, lit));
  return &pixels_[tile * static_cast<std::size_t>(size_ * size_ * 3)];
}

void Tiles::Copy(const std::uint8_t* tile, int column, int row, int columns, std::uint8_t* rgb) const {
  const auto bytes = static_cast<std::size_t>(size_ * 3), stride = bytes * static_cast<std::size_t>(columns);
  rgb += static_cast<std::size_t>(row * size_) * stride + static_cast<std::size_t>(column) * bytes;
  for (int line = 0; line < size_; ++line, tile += bytes, rgb += stride) std::memcpy(rgb, tile, bytes);
}

void Tiles::DrawFull(const World& world, int view, std::uint8_t* rgb) const {
  const auto [width, height] = world.size();
  std::vector<bool> lit(static_cast<std::size_t>(width * height));
  const View seen(world, view);
  for (int cell = 0; cell < view * view; ++cell) {
    const Pos p = seen.Place(cell);
    if (seen.IsSeen(cell) && world.Contains(p)) lit[static_cast<std::size_t>(p.y * width + p.x)] = true;
  }
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      const int direction = world.agent() == Pos(x, y) ? world.direction() : kNoAgent;
      const bool is_lit = lit[static_cast<std::size_t>(y * width + x)];
      Copy(Get(world, world.Get({x, y}), direction, is_lit), x, y, width, rgb);
    }
  }
}

void Tiles::DrawPartial(const World& world, int view, std::uint8_t* rgb) const {
  const View seen(world, view);
  for (int cell = 0; cell < view * view; ++cell) {
    const Id id = seen.IsSeen(cell) ? seen.Get(cell) : kNothing;
    const int direction = cell == seen.AgentCell() ? 3 : kNoAgent;
    Copy(Get(world, id, direction, seen.IsSeen(cell)), cell / view, cell % view, view, rgb);
  }
}

}  // namespace torchrl_pool::minigrid
