// Shapes as pygame draws them for Gymnasium: pygame.gfxdraw and pygame.draw of pygame-ce 2.5, pixel by pixel.
#ifndef TORCHRL_POOL_ENVS_CANVAS_H_
#define TORCHRL_POOL_ENVS_CANVAS_H_

#include <cstdint>
#include <vector>

#include "picture.h"

namespace torchrl_pool::pictures {

struct Point {
  double x, y;
};
using Corners = std::vector<Point>;

// pygame.math.Vector2(x, y).rotate_rad(angle), for many points.
class Rotation {
 public:
  explicit Rotation(double angle);
  Point operator()(Point point) const;

 private:
  int quarters_ = -1;  // of a turn, where there is nothing else; else -1
  double sin_ = 0, cos_ = 1;
};
inline Point Rotated(Point point, double angle) { return Rotation(angle)(point); }
// The corners of the rectangle from `low` to `high`, turned about the origin.
Corners RotatedRectangle(Point low, Point high, double angle);

class Canvas : public Picture {
 public:
  using Picture::Picture;

  // pygame.gfxdraw's, which cut corners and centres to whole pixels.

  void Outline(const Corners& corners, Colour colour);   // aapolygon
  void Polygon(const Corners& corners, Colour colour);   // aapolygon, then filled_polygon
  void Circle(Point centre, int radius, Colour colour);  // aacircle, then filled_circle

  // pygame.draw's. All but the smooth ones cut to whole pixels, too.

  void Shape(const Corners& corners, Colour colour);  // polygon(width=0)
  void Line(Point from, Point to, Colour colour, int width = 1);
  void Lines(const std::vector<Point>& points, Colour colour, int width, bool is_closed);
  void Disc(Point centre, double radius, Colour colour);                              // circle(width=0)
  void Ring(Point centre, double radius, Colour colour);                              // circle(width=1)
  void SmoothLine(Point from, Point to, Colour colour);                               // aaline
  void SmoothLines(const std::vector<Point>& points, Colour colour, bool is_closed);  // aalines

 private:
  struct Pixel {
    int x, y;
  };
  // As both take a number: without its fraction, in 16 bits. What is no number is out of sight.
  static int Cut(double value);
  static std::vector<Pixel> Cut(const std::vector<Point>& points);

  void Blend(int x, int y, Colour colour, int alpha);       // SDL_gfx's
  void Mix(int x, int y, Colour colour, float brightness);  // pygame.draw's
  void Edge(Pixel from, Pixel to, Colour colour);
  bool Clip(Pixel* from, Pixel* to) const;
  void FillPolygon(const std::vector<Pixel>& corners, Colour colour);
  void CircleEdge(Pixel centre, int radius, Colour colour);
  void FillCircle(Pixel centre, int radius, Colour colour);
  void FillTriangle(std::vector<Pixel> corners, Colour colour);
  // Calls visit(first column, last column, row) from one edge of a circle to the other.
  template <class Visit>
  static void VisitRows(Point centre, int radius, const Visit& visit);
  void ThinLine(Pixel from, Pixel to, Colour colour);
  void ThickLine(Pixel from, Pixel to, int width, Colour colour);

  struct SmoothSpan {
    float x1, y1, x2, y2;
    bool IsSteep() const;
    bool EndsOnPixel() const;
  };
  struct Ends {
    bool first, second;  // whether the line's end points are drawn
    bool extra;          // whether they are all the same, since the line turns from flat to steep or back
  };
  // Where a line is within sight, with a pixel to spare. False: nowhere.
  static bool ClipSmooth(SmoothSpan* line, float gradient, float left, float right, float top, float bottom);
  void DrawSmooth(SmoothSpan line, Ends ends, Colour colour);
};

}  // namespace torchrl_pool::pictures

#endif  // TORCHRL_POOL_ENVS_CANVAS_H_
