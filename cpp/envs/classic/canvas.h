// Anti-aliased shapes on an RGB picture, enough to show a cart, a pole and a hill.
#ifndef TORCHRL_POOL_ENVS_CLASSIC_CANVAS_H_
#define TORCHRL_POOL_ENVS_CLASSIC_CANVAS_H_

#include <cstdint>
#include <vector>

#include "torchrl_pool/env.h"

namespace torchrl_pool::classic {

struct Point {
  double x, y;
};

struct Colour {
  std::uint8_t red, green, blue;
};
constexpr Colour kBlack{0, 0, 0}, kWhite{255, 255, 255}, kGrey{128, 128, 128};

// Draws on uint8 [height, width, 3] in pixels, with the origin at the lower left and y upwards.
class Canvas {
 public:
  // Fills the picture with white.
  Canvas(std::uint8_t* rgb, ImageSize size);

  // Fills a convex polygon, whichever way round its corners go.
  void Polygon(const std::vector<Point>& corners, Colour colour);
  void Circle(Point centre, double radius, Colour colour);
  void Line(Point from, Point to, double width, Colour colour);
  // A rectangle that begins at `base` and runs `length` along `angle` (rad, 0 is to the right), with round
  // ends.
  void Link(Point base, double angle, double length, double width, Colour colour);

 private:
  // Blends a colour over the bounding box, by how much of each pixel lies inside the shape.
  template <class Inside>
  void Fill(Point low, Point high, Colour colour, const Inside& inside);

  std::uint8_t* const rgb_;
  const ImageSize size_;
};

}  // namespace torchrl_pool::classic

#endif  // TORCHRL_POOL_ENVS_CLASSIC_CANVAS_H_
