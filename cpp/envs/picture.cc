#include "picture.h"

#include <algorithm>
#include <cstring>

namespace torchrl_pool::pictures {

Picture::Picture(std::uint8_t* pixels, ImageSize size, Colour background, int pixel_bytes)
    : size_(size), pixel_bytes_(pixel_bytes), row_bytes_(size.width * pixel_bytes), first_(pixels) {
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
  const std::int64_t first = std::max<std::int64_t>(low, 0), last = std::min(high, size_.width - 1);
  if (y < 0 || y >= size_.height || first > last) return;
  Set(first, y, colour);
  std::uint8_t* const start = At(first, y);
  const auto size = static_cast<std::size_t>((last - first + 1) * pixel_bytes_);
  // What is filled is copied behind itself, twice as much each time.
  for (std::size_t filled = static_cast<std::size_t>(pixel_bytes_); filled < size; filled *= 2) {
    std::memcpy(start + filled, start, std::min(filled, size - filled));
  }
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
  for (std::int64_t y = 0; y < size_.height / 2; ++y) {
    std::uint8_t* upper = At(0, y);
    std::swap_ranges(upper, upper + size_.width * pixel_bytes_, At(0, size_.height - 1 - y));
  }
}

void Picture::CountFromOtherEnd() {
  first_ += (size_.height - 1) * row_bytes_;
  row_bytes_ = -row_bytes_;
}

}  // namespace torchrl_pool::pictures
