// pygame.transform.smoothscale of a picture with four bytes a pixel: what pictures::SmoothlyShrunk computes,
// fast.
#ifndef TORCHRL_POOL_ENVS_BOX2D_SHRINK_H_
#define TORCHRL_POOL_ENVS_BOX2D_SHRINK_H_

#include <cstdint>
#include <vector>

#include "torchrl_pool/env.h"

namespace torchrl_pool::box2d {

class Shrinker {
 public:
  // To at most the height and the width of the picture.
  Shrinker(ImageSize from, ImageSize to);
  // From uint8 [height, width, 4] to uint8 [height, width, 3].
  void Run(const std::uint8_t* pixels, std::uint8_t* rgb);

 private:
  // How many pixels one is made of: whole ones, and parts of the one that it shares with the next, in 2^-14.
  struct Share {
    std::int32_t whole;
    std::uint16_t left, rest;
  };
  static std::vector<Share> Shares(std::int64_t from, std::int64_t to);
  static std::uint16_t Reciprocal(std::int64_t from, std::int64_t to);
  void ShrinkRow(const std::uint8_t* pixels, std::uint8_t* row) const;

  const ImageSize to_;
  const std::int64_t row_bytes_;
  const std::vector<Share> across_, down_;
  const std::uint16_t across_reciprocal_, down_reciprocal_;
  std::vector<std::uint8_t> row_;
  std::vector<std::uint16_t> sums_;
};

}  // namespace torchrl_pool::box2d

#endif  // TORCHRL_POOL_ENVS_BOX2D_SHRINK_H_
