// Images in files, and what Gymnasium does with them through pygame before it draws them.
#ifndef TORCHRL_POOL_ENVS_IMAGE_H_
#define TORCHRL_POOL_ENVS_IMAGE_H_

#include <cstdint>
#include <string>
#include <vector>

namespace torchrl_pool::pictures {

struct Image {
  std::int64_t height = 0, width = 0;
  std::vector<std::uint8_t> rgba;  // [height, width, 4], row by row

  const std::uint8_t* At(std::int64_t y, std::int64_t x) const { return &rgba[Offset(y, x)]; }
  std::uint8_t* At(std::int64_t y, std::int64_t x) { return &rgba[Offset(y, x)]; }

 private:
  std::size_t Offset(std::int64_t y, std::int64_t x) const {
    return static_cast<std::size_t>(y * width + x) * 4;
  }
};

Image Blank(std::int64_t height, std::int64_t width);

// One of Gymnasium's images, such as "toy_text/img/taxi/house", read once. Throws FileNotFound where this
// library was built without them.
const Image& GymnasiumImage(const std::string& name);

// pygame.transform.flip
Image FlippedLeftRight(const Image& image);
Image FlippedUpDown(const Image& image);
// pygame.transform.scale: the nearest pixel.
Image Scaled(const Image& image, std::int64_t height, std::int64_t width);
// pygame.transform.smoothscale to less than the image's height and width: averages.
Image SmoothlyShrunk(const Image& image, std::int64_t height, std::int64_t width);

}  // namespace torchrl_pool::pictures

#endif  // TORCHRL_POOL_ENVS_IMAGE_H_
