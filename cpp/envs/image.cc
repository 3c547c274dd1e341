#include "image.h"

#include <dlfcn.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>

#include "torchrl_pool/error.h"

namespace torchrl_pool::pictures {
namespace {

// Beside the library that this is part of.
std::filesystem::path Folder() {
  Dl_info info;
  dladdr(reinterpret_cast<const void*>(&GymnasiumImage), &info);
  return std::filesystem::absolute(info.dli_fname).parent_path() / "images";
}

// Height and width as two bytes each, then the pixels: see collect_images.py.
Image Read(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::uint8_t size[4];
  if (!file.read(reinterpret_cast<char*>(size), sizeof size)) {
    throw FileNotFound("cannot read the image " + path.string() +
                       ": this library was built without Gymnasium's images");
  }
  Image image = Blank(size[0] + 256 * size[1], size[2] + 256 * size[3]);
  const auto bytes = static_cast<std::streamsize>(image.rgba.size());
  if (!file.read(reinterpret_cast<char*>(image.rgba.data()), bytes)) {
    throw FileNotFound("the image " + path.string() + " is truncated");
  }
  return image;
}

// What averages pixels along a line, in pygame's 16-bit arithmetic: SSE2's, which it has on every processor
// that this runs on.
class Averager {
 public:
  Averager(std::int64_t from, std::int64_t to)
      : space_(static_cast<int>(kOne * from / to)),
        reciprocal_(static_cast<std::uint16_t>(kOne * kOne * 4 / space_)) {}

  // Reads `from` pixels that lie `in_stride` bytes apart and writes `to` of them.
  void Run(const std::uint8_t* in, std::size_t in_stride, std::int64_t count, std::uint8_t* out,
           std::size_t out_stride) const {
    std::uint16_t sum[4] = {};
    int left = space_;
    for (std::int64_t i = 0; i < count; ++i, in += in_stride) {
      if (left > kOne) {
        for (int c = 0; c < 4; ++c) sum[c] = static_cast<std::uint16_t>(sum[c] + in[c]);
        left -= kOne;
        continue;
      }
      const int rest = kOne - left;
      for (int c = 0; c < 4; ++c) {
        const auto total = static_cast<std::uint16_t>(sum[c] + Part(in[c], left));
        out[c] = static_cast<std::uint8_t>(std::min(total * std::uint32_t{reciprocal_} >> 16, 255u));
        sum[c] = Part(in[c], rest);
      }
      out += out_stride;
      left = space_ - rest;
    }
  }

 private:
  static constexpr int kOne = 0x4000;
  static std::uint16_t Part(std::uint8_t value, int weight) {
    return static_cast<std::uint16_t>((value << 2) * weight >> 16);
  }
  const int space_;  // pixels that go into one, in units of kOne
  const std::uint16_t reciprocal_;
};

}  // namespace

Image Blank(std::int64_t height, std::int64_t width) {
  return {height, width, std::vector<std::uint8_t>(static_cast<std::size_t>(height * width) * 4)};
}

const Image& GymnasiumImage(const std::string& name) {
  static std::mutex mutex;
  static auto& images = *new std::map<std::string, Image>;  // never destroyed: a thread may still draw
  const std::lock_guard lock(mutex);
  const auto found = images.find(name);
  if (found != images.end()) return found->second;
  return images.emplace(name, Read(Folder() / (name + ".rgba"))).first->second;
}

Image FlippedLeftRight(const Image& image) {
  Image flipped = Blank(image.height, image.width);
  for (std::int64_t y = 0; y < image.height; ++y) {
    for (std::int64_t x = 0; x < image.width; ++x) {
      std::copy_n(image.At(y, image.width - 1 - x), 4, flipped.At(y, x));
    }
  }
  return flipped;
}

Image FlippedUpDown(const Image& image) {
  Image flipped = Blank(image.height, image.width);
  for (std::int64_t y = 0; y < image.height; ++y) {
    std::copy_n(image.At(image.height - 1 - y, 0), image.width * 4, flipped.At(y, 0));
  }
  return flipped;
}

Image Scaled(const Image& image, std::int64_t height, std::int64_t width) {
  Image scaled = Blank(height, width);
  const auto nearest = [](std::int64_t i, std::int64_t from, std::int64_t to) {
    const std::int64_t step = (from << 16) / to;
    return (step / 2 + i * step) >> 16;
  };
  for (std::int64_t y = 0; y < height; ++y) {
    for (std::int64_t x = 0; x < width; ++x) {
      std::copy_n(image.At(nearest(y, image.height, height), nearest(x, image.width, width)), 4,
                  scaled.At(y, x));
    }
  }
  return scaled;
}

Image SmoothlyShrunk(const Image& image, std::int64_t height, std::int64_t width) {
  Image narrow = Blank(image.height, width), shrunk = Blank(height, width);
  if (height == 0 || width == 0) return shrunk;
  const Averager across(image.width, width), down(image.height, height);
  for (std::int64_t y = 0; y < image.height; ++y)
    across.Run(image.At(y, 0), 4, image.width, narrow.At(y, 0), 4);
  const auto row_bytes = static_cast<std::size_t>(width) * 4;
  for (std::int64_t x = 0; x < width; ++x) {
    down.Run(narrow.At(0, x), row_bytes, image.height, shrunk.At(0, x), row_bytes);
  }
  return shrunk;
}

}  // namespace torchrl_pool::pictures
