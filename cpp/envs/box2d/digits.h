// Numbers as pygame.font writes them into CarRacing's pictures.
#ifndef TORCHRL_POOL_ENVS_BOX2D_DIGITS_H_
#define TORCHRL_POOL_ENVS_BOX2D_DIGITS_H_

#include <string>

#include "canvas.h"

namespace torchrl_pool::box2d {

// In white on black, around a centre. text: digits and minus signs.
void DrawNumber(pictures::Canvas* canvas, const std::string& text, int centre_x, int centre_y);

}  // namespace torchrl_pool::box2d

#endif  // TORCHRL_POOL_ENVS_BOX2D_DIGITS_H_
