// A picture to draw on, with the arithmetic of pygame's surfaces.
#ifndef TORCHRL_POOL_ENVS_PICTURE_H_
#define TORCHRL_POOL_ENVS_PICTURE_H_

#include <cstdint>

#include "image.h"
#include "torchrl_pool/env.h"

namespace torchrl_pool::pictures {

struct Colour {
  std::uint8_t red, green, blue;
};
constexpr Colour kBlack{0, 0, 0}, kWhite{255, 255, 255};

// Draws on uint8 [height, width, 3], or on as many more bytes a pixel as there are. What lies outside is left
// out.
class Picture {
 public:
  Picture(std::uint8_t* pixels, ImageSize size, Colour background, int pixel_bytes = 3);

  std::int64_t height() const { return size_.height; }
  std::int64_t width() const { return size_.width; }
  bool Contains(std::int64_t x, std::int64_t y) const {
    return x >= 0 && x < size_.width && y >= 0 && y < size_.height;
  }
  // For x and y that the picture contains.
  std::uint8_t* At(std::int64_t x, std::int64_t y) { return first_ + y * row_bytes_ + x * pixel_bytes_; }

  void Set(std::int64_t x, std::int64_t y, Colour colour);
  // From (x1, y) to (x2, y), whichever is further left.
  void HorizontalLine(std::int64_t x1, std::int64_t x2, std::int64_t y, Colour colour);
  void VerticalLine(std::int64_t x, std::int64_t y1, std::int64_t y2, Colour colour);
  // The border of a rectangle, one pixel wide: pygame.draw.rect(…, width=1)
  void Frame(std::int64_t x, std::int64_t y, std::int64_t width, std::int64_t height, Colour colour);
  // Surface.blit: the image's upper left corner goes to (x, y).
  void Blit(const Image& image, std::int64_t x, std::int64_t y);
  void FlipUpDown();
  // Counts rows from below from here on, or again from above: to draw what shall be flipped costs nothing.
  void CountFromOtherEnd();

 private:
  const ImageSize size_;
  const std::int64_t pixel_bytes_;
  std::int64_t row_bytes_;  // less than nothing where rows count from below
  std::uint8_t* first_;
};

}  // namespace torchrl_pool::pictures

#endif  // TORCHRL_POOL_ENVS_PICTURE_H_
