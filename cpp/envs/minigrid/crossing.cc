// Rivers of lava, or walls, each with a ford. Reference: minigrid/envs/crossing.py.
#include <algorithm>

#include "task.h"

namespace torchrl_pool::minigrid {
namespace {

const std::string kLavaMission = "avoid the lava and get to the green goal square";
const std::string kWallMission = "find the opening and get to the green goal square";

class Crossing : public World {
 public:
  Crossing(int size, int rivers, Type obstacle)
      : World({size, size}, 4 * size * size, false), rivers_(rivers), obstacle_(obstacle) {}

 private:
  struct River {
    bool is_vertical;
    int at;
  };

  void Generate() override {
    ClearRoom();
    PutAgent({1, 1});
    const int last = size_.width - 1;
    Put(Make(kGoal, kGreen), {last - 1, last - 1});

    std::vector<River> rivers;
    for (const bool is_vertical : {true, false}) {
      for (int at = 2; at < last - 1; at += 2) rivers.push_back({is_vertical, at});
    }
    rng_.Shuffle(rivers.begin(), rivers.end());
    rivers.resize(std::min(rivers.size(), static_cast<std::size_t>(rivers_)));
    // What bounds the regions between rivers.
    std::vector<int> columns{0}, rows{0};
    for (const River& river : rivers) (river.is_vertical ? columns : rows).push_back(river.at);
    std::sort(columns.begin(), columns.end());
    std::sort(rows.begin(), rows.end());
    const Id obstacle = obstacle_ == kWall ? kGreyWall : Make(obstacle_, kRed);
    for (std::size_t i = 1; i < rows.size(); ++i) HorizontalWall(1, rows[i], last - 1, obstacle);
    for (std::size_t i = 1; i < columns.size(); ++i) VerticalWall(columns[i], 1, last - 1, obstacle);

    // From region to region, to the right or down.
    std::vector<bool> moves(columns.size() - 1, true);
    moves.insert(moves.end(), rows.size() - 1, false);
    rng_.Shuffle(moves.begin(), moves.end());
    columns.push_back(last);
    rows.push_back(last);
    std::size_t i = 0, j = 0;
    for (const bool to_the_right : moves) {
      if (to_the_right) {
        Set({columns[i + 1], Int(rows[j] + 1, rows[j + 1])}, kNothing);
        ++i;
      } else {
        Set({Int(columns[i] + 1, columns[i + 1]), rows[j + 1]}, kNothing);
        ++j;
      }
    }
    mission_ = obstacle_ == kWall ? kWallMission : kLavaMission;
  }

  const int rivers_;
  const Type obstacle_;
};

const bool registered =
    RegisterKind({.description = "reach a goal across rivers of lava",
                  .missions = EachOf(kLavaMission),
                  .tasks = {{"MiniGrid-LavaCrossingS9N1-v0", New<Crossing>(9, 1, kLava)},
                            {"MiniGrid-LavaCrossingS9N2-v0", New<Crossing>(9, 2, kLava)},
                            {"MiniGrid-LavaCrossingS9N3-v0", New<Crossing>(9, 3, kLava)},
                            {"MiniGrid-LavaCrossingS11N5-v0", New<Crossing>(11, 5, kLava)}}}) &&
    RegisterKind({.description = "reach a goal through openings in walls",
                  .missions = EachOf(kWallMission),
                  .tasks = {{"MiniGrid-SimpleCrossingS9N1-v0", New<Crossing>(9, 1, kWall)},
                            {"MiniGrid-SimpleCrossingS9N2-v0", New<Crossing>(9, 2, kWall)},
                            {"MiniGrid-SimpleCrossingS9N3-v0", New<Crossing>(9, 3, kWall)},
                            {"MiniGrid-SimpleCrossingS11N5-v0", New<Crossing>(11, 5, kWall)}}});

}  // namespace
}  // namespace torchrl_pool::minigrid
