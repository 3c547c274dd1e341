#include "view.h"

#include <algorithm>

namespace torchrl_pool::minigrid {
namespace {

struct Code {
  std::uint8_t type, color, state;
};

Code CodeOf(const World& world, Id id) {
  if (id == kNothing) return {kEmpty, 0, 0};
  const Thing& thing = world.thing(id);
  return {thing.type, thing.color, thing.state};
}

Code CodeOf(const World& world, const View& view, int cell) {
  return view.IsSeen(cell) ? CodeOf(world, view.Get(cell)) : Code{kUnseen, 0, 0};
}

}  // namespace

View::View(const World& world, int side)
    : side_(side),
      ahead_(kDirections[world.direction()]),
      right_(kDirections[(world.direction() + 1) % 4]),
      corner_(world.agent() + ahead_ * (side - 1) - right_ * (side / 2)) {
  for (int i = 0, cell = 0; i < side; ++i) {
    Pos p = corner_ + right_ * i;
    for (int j = 0; j < side; ++j, ++cell, p = p - ahead_) {
      cells_[static_cast<std::size_t>(cell)] = world.Contains(p) ? world.Get(p) : kGreyWall;
    }
  }
  if (world.sees_through_walls()) {
    std::fill_n(seen_.begin(), side * side, true);
  } else {
    See(world);
  }
  // Not before: the agent looks past what it carries, and out of the door that it stands in.
  cells_[static_cast<std::size_t>(AgentCell())] = world.carrying();
}

// From the agent on, row by row away from it: what is next to a cell that can be looked through, aside or
// ahead. A row is a number with a bit for each of its cells.
void View::See(const World& world) {
  const std::uint64_t all = (std::uint64_t{1} << side_) - 1, first = 1,
                      last = std::uint64_t{1} << (side_ - 1);
  std::uint64_t row = std::uint64_t{1} << (side_ / 2);
  for (int j = side_ - 1; j >= 0; --j) {
    std::uint64_t clear = 0;
    for (int i = 0; i < side_; ++i) {
      const Id id = cells_[static_cast<std::size_t>(i * side_ + j)];
      const bool is_clear = id == kNothing || world.thing(id).CanSeeBehind();
      clear |= static_cast<std::uint64_t>(is_clear) << i;
    }
    std::uint64_t passed = row & clear, way = clear;
    for (int step = 1; step < side_; step *= 2) {
      passed |= way & passed << step;
      way &= way << step;
    }
    row = (row | passed << 1) & all;
    passed &= ~last;
    std::uint64_t ahead = passed | passed << 1;
    passed = row & clear;
    way = clear;
    for (int step = 1; step < side_; step *= 2) {
      passed |= way & passed >> step;
      way &= way >> step;
    }
    row |= passed >> 1;
    passed &= ~first;
    ahead |= passed | passed >> 1;
    for (int i = 0; i < side_; ++i) seen_[static_cast<std::size_t>(i * side_ + j)] = row >> i & 1;
    row = ahead;
  }
}

void WritePartial(const World& world, int side, std::uint8_t* image) {
  const View view(world, side);
  for (int cell = 0; cell < side * side; ++cell, image += 3) {
    const Code code = CodeOf(world, view, cell);
    image[0] = code.type;
    image[1] = code.color;
    image[2] = code.state;
  }
}

void WriteFull(const World& world, std::uint8_t* image) {
  const auto [width, height] = world.size();
  for (int x = 0; x < width; ++x) {
    for (int y = 0; y < height; ++y, image += 3) {
      const bool here = world.agent() == Pos(x, y);
      const auto direction = static_cast<std::uint8_t>(world.direction());
      const Code code = here ? Code{kAgent, kRed, direction} : CodeOf(world, world.Get({x, y}));
      image[0] = code.type;
      image[1] = code.color;
      image[2] = code.state;
    }
  }
}

void WriteOneHot(const World& world, int side, std::uint8_t* image) {
  const View view(world, side);
  std::fill_n(image, side * side * kOneHot, std::uint8_t{0});
  for (int cell = 0; cell < side * side; ++cell, image += kOneHot) {
    const Code code = CodeOf(world, view, cell);
    image[code.type] = image[kTypes + code.color] = image[kTypes + kColors + code.state] = 1;
  }
}

}  // namespace torchrl_pool::minigrid
