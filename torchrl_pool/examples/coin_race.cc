// coin_race.cc: two players run for a coin, and as soon as one of them has it, for the next.
#include <algorithm>
#include <cmath>

#include "torchrl_pool/env.h"
namespace pool = torchrl_pool;

namespace {

constexpr double kStep = 0.2, kReach = 0.2;
constexpr int kChoices = 5;  // stay, left, right, down, up

class CoinRace {
 public:
  struct Options {
    template <class Visitor>
    void Visit(Visitor&) {}
  };

  // What either player sees: from itself to the coin, from itself to the other one, and where it is.
  static pool::Specs MakeSpecs(const Options&) {
    return {pool::Observation("observation", pool::Box<float>({6}), "the first player's"),
            pool::Observation("opponent_observation", pool::Box<float>({6}), "the second player's"),
            pool::Action("action", pool::MultiDiscrete({kChoices, kChoices}),
                         "of the first and the second player")};
  }

  explicit CoinRace(const Options&) {}
  void Seed(pool::Entropy entropy) { rng_ = pool::Rng(entropy); }

  void Reset(pool::Row& row) {
    for (Place& player : players_) player = Anywhere();
    coin_ = Anywhere();
    Write(row);
  }

  // The second player's reward is the negative of the first one's.
  pool::Outcome Step(pool::Row& row) {
    const auto* choices = row.Action<std::int64_t>();
    bool has_it[2];
    for (int i = 0; i < 2; ++i) {
      Move(players_[i], choices[i]);
      has_it[i] = std::hypot(coin_.x - players_[i].x, coin_.y - players_[i].y) < kReach;
    }
    if (has_it[0] || has_it[1]) coin_ = Anywhere();
    Write(row);
    return {.reward = static_cast<double>(has_it[0]) - static_cast<double>(has_it[1])};
  }

  template <class Visitor>
  void VisitState(Visitor& visit) {
    visit(rng_, coin_.x, coin_.y);
    for (Place& player : players_) visit(player.x, player.y);
  }

 private:
  struct Place {
    double x = 0, y = 0;
  };

  Place Anywhere() {
    const double x = rng_.Uniform(-1, 1);
    return {x, rng_.Uniform(-1, 1)};
  }

  static void Move(Place& player, std::int64_t choice) {
    player.x = std::clamp(player.x + kStep * ((choice == 2) - (choice == 1)), -1.0, 1.0);
    player.y = std::clamp(player.y + kStep * ((choice == 4) - (choice == 3)), -1.0, 1.0);
  }

  void Write(pool::Row& row) const {
    for (int i = 0; i < 2; ++i) {
      const Place &own = players_[i], &other = players_[1 - i];
      const double seen[] = {coin_.x - own.x, coin_.y - own.y, other.x - own.x,
                             other.y - own.y, own.x,           own.y};
      std::copy(std::begin(seen), std::end(seen), row.Out<float>(i));
    }
  }

  pool::Rng rng_;
  Place players_[2], coin_;
};

const bool registered = pool::Register<CoinRace>({.id = "CoinRace-v0", .max_episode_steps = 64});

}  // namespace

TORCHRL_POOL_PLUGIN("coin_race", "1.0")
