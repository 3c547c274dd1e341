// Colours to grey, as TorchRL's GrayScale weighs them.
#ifndef TORCHRL_POOL_CORE_TRANSFORMS_GRAY_SCALE_H_
#define TORCHRL_POOL_CORE_TRANSFORMS_GRAY_SCALE_H_

#include <cstddef>

#include "stage.h"

namespace torchrl_pool::core {

// T: of the picture; Mid: in which torch multiplies it by a real number.
template <class T, class Mid>
class GrayScaleStage : public RowStage<GrayScaleStage<T, Mid>> {
 public:
  // Rows hold `pictures` of three planes, red, green and blue, of `plane` pixels each.
  GrayScaleStage(ValueIndex in, ValueIndex out, std::size_t pictures, std::size_t plane)
      : in_(in), out_(out), pictures_(pictures), plane_(plane) {}

  void Step(const StageRow& row) const {
    const T* red = row.Get<const T>(in_);
    T* out = row.Get<T>(out_);
    for (std::size_t i = 0; i < pictures_; ++i, red += 3 * plane_, out += plane_) {
      const T* const green = red + plane_;
      const T* const blue = green + plane_;
      for (std::size_t p = 0; p < plane_; ++p) out[p] = Grey(red[p], green[p], blue[p]);
    }
  }

 private:
  static T Grey(T red, T green, T blue) {
    const Mid reds = static_cast<Mid>(0.2989) * static_cast<Mid>(red);
    const Mid greens = static_cast<Mid>(0.587) * static_cast<Mid>(green);
    const Mid blues = static_cast<Mid>(0.114) * static_cast<Mid>(blue);
    return static_cast<T>((reds + greens) + blues);
  }

  const ValueIndex in_, out_;
  const std::size_t pictures_, plane_;
};

}  // namespace torchrl_pool::core

#endif  // TORCHRL_POOL_CORE_TRANSFORMS_GRAY_SCALE_H_
