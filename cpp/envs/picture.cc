#include "picture.h"

#include <algorithm>

namespace torchrl_pool::pictures {

Picture::Picture(std::uint8_t* rgb, ImageSize size, Colour background) : rgb_(rgb), size_(size) {
  for (std::int64_t y = 0; y < size.height; ++y) HorizontalLine(0, size.width - 1, y, background);
}

void Picture::Set(std::int64_t x, std::int64_t y, Colour colour) {
  if (!Contains(x, y)) return;
  std::uint8_t* pixel = At(x, y);
  pixel[0] = colour.red;
  pixel[1] = colour.green;
  pixel[2] = colour.blue;
}

void Picture::HorizontalLine(std::int64_t x1, std::int64_t x2, std::int64_t y, Colour colour) {
  const auto [low, high] = std::minmax(x1, x2);
  const std::int64_t end = std::min(high, size_.width - 1);
  for (std::int64_t x = std::max<std::int64_t>(low, 0); x <= end; ++x) Set(x, y, colour);
}

void Picture::VerticalLine(std::int64_t x, std::int64_t y1, std::int64_t y2, Colour colour) {
  const auto [low, high] = std::minmax(y1, y2);
  const std::int64_t end = std::min(high, size_.height - 1);
  for (std::int64_t y = std::max<std::int64_t>(low, 0); y <= end; ++y) Set(x, y, colour);
}

void Picture::Frame(std::int64_t x, std::int64_t y, std::int64_t width, std::int64_t height, Colour colour) {
  const std::int64_t right = x + width - 1, bottom = y + height - 1;
  for (const std::int64_t edge : {y, bottom}) HorizontalLine(x, right, edge, colour);
  for (const std::int64_t edge : {x, right}) VerticalLine(edge, y, bottom, colour);
}

void Picture::Blit(const Image& image, std::int64_t x, std::int64_t y) {
  for (std::int64_t row = 0; row < image.height; ++row) {
    for (std::int64_t column = 0; column < image.width; ++column) {
      if (!Contains(x + column, y + row)) continue;
      const std::uint8_t* from = image.At(row, column);
      std::uint8_t* to = At(x + column, y + row);
      for (int c = 0; c < 3; ++c) {
        to[c] = static_cast<std::uint8_t>((((from[c] - to[c]) * from[3] + from[c]) >> 8) + to[c]);
      }
    }
  }
}

void Picture::FlipUpDown() {
  const std::int64_t row_bytes = size_.width * 3;
  for (std::int64_t y = 0; y < size_.height / 2; ++y) {
    std::uint8_t* upper = At(0, y);
    std::swap_ranges(upper, upper + row_bytes, At(0, size_.height - 1 - y));
  }
}

}  // namespace torchrl_pool::pictures
