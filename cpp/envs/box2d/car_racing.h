// What car racing's pictures show.
#ifndef TORCHRL_POOL_ENVS_BOX2D_CAR_RACING_H_
#define TORCHRL_POOL_ENVS_BOX2D_CAR_RACING_H_

#include <Box2D/Box2D.h>

#include <array>
#include <cstdint>
#include <vector>

#include "car.h"
#include "torchrl_pool/env.h"

namespace torchrl_pool::box2d {

// Of road, field and grass: red, green, blue, with fractions that are cut when they are drawn.
struct RaceColours {
  std::array<double, 3> road{102, 102, 102}, field{102, 204, 102}, grass{102, 230, 102};

  bool IsValid() const;
};

struct Tile {  // of the road
  b2Body* body;
  int index;
  bool is_visited = false;  // by a wheel
  bool is_touched = false;  // by anything: then its colour is the plain road's
};

struct Quad {  // of road or border
  double x[4], y[4];
  int tile;  // -1: a border's
  bool is_white;
};

struct Race {
  static constexpr double kScale = 6.0, kTrackRadius = 900 / kScale, kField = 2000 / kScale;
  static constexpr double kDetail = 21 / kScale, kTurnRate = 0.31;
  static constexpr double kTrackWidth = 40 / kScale, kBorder = 8 / kScale;

  RaceColours colours;
  std::vector<Tile> tiles;
  std::vector<Quad> quads;
  Car car;
  double time = 0;
};

// What an agent sees, [96, 96, 3], and what people see.
constexpr ImageSize kRaceView{96, 96}, kRacePicture{400, 600};
void DrawRaceView(std::uint8_t* rgb, const Race& race, double score);
void DrawRacePicture(std::uint8_t* rgb, const Race& race, double score);

}  // namespace torchrl_pool::box2d

#endif  // TORCHRL_POOL_ENVS_BOX2D_CAR_RACING_H_
