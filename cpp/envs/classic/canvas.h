// Shapes as pygame draws them for Gymnasium: pygame.gfxdraw and pygame.draw of pygame-ce 2.5, pixel by pixel.
#ifndef TORCHRL_POOL_ENVS_CLASSIC_CANVAS_H_
#define TORCHRL_POOL_ENVS_CLASSIC_CANVAS_H_

#include <cstdint>
#include <vector>

#include "picture.h"

namespace torchrl_pool::classic {

using pictures::Colour;
using pictures::kBlack;
using pictures::kWhite;

struct Point {
  double x, y;
};
using Corners = std::vector<Point>;

// pygame.math.Vector2(x, y).rotate_rad(angle)
Point Rotated(Point point, double angle);
// The corners of the rectangle from `low` to `high`, turned about the origin.
Corners RotatedRectangle(Point low, Point high, double angle);

class Canvas : public pictures::Picture {
 public:
  using Picture::Picture;

  // gfxdraw.aapolygon, then gfxdraw.filled_polygon. Corners are cut to whole pixels.
  void Polygon(const Corners& corners, Colour colour);
  // gfxdraw.aacircle, then gfxdraw.filled_circle, around what the centre is cut to.
  void Circle(Point centre, int radius, Colour colour);
  // pygame.draw.aalines(closed=False)
  void Curve(const std::vector<Point>& points, Colour colour);

 private:
  struct Pixel {
    int x, y;
  };
  void Blend(int x, int y, Colour colour, int alpha);       // SDL_gfx's
  void Mix(int x, int y, Colour colour, float brightness);  // pygame.draw's
  void Edge(Pixel from, Pixel to, Colour colour);
  bool Clip(Pixel* from, Pixel* to) const;
  void FillPolygon(const std::vector<Pixel>& corners, Colour colour);
  void CircleEdge(Pixel centre, int radius, Colour colour);
  void FillCircle(Pixel centre, int radius, Colour colour);

  struct Ends {
    bool first, second;  // whether the line's end points are drawn
    bool extra;          // whether they are all the same, since the line turns from flat to steep or back
  };
  void SmoothLine(float x1, float y1, float x2, float y2, Ends ends, Colour colour);
};

}  // namespace torchrl_pool::classic

#endif  // TORCHRL_POOL_ENVS_CLASSIC_CANVAS_H_
