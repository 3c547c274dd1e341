// CarRacing: drive around a random track, seen from above.
// Oleg Klimov's; reference: gymnasium/envs/box2d/car_racing.py. What is double here is a Python float there.
#include "car_racing.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "episode.h"
#include "physics.h"
#include "track.h"

namespace torchrl_pool::box2d {

bool RaceColours::IsValid() const {
  const auto is_valid = [](const std::array<double, 3>& colour) {
    return std::all_of(colour.begin(), colour.end(), [](double c) { return c >= 0 && c <= 230; });
  };
  return is_valid(road) && is_valid(field) && is_valid(grass);
}

namespace {

class CarRacing : private b2ContactListener {
 public:
  struct Options {
    double lap_complete_percent = 0.95;
    bool domain_randomize = false, continuous = true;

    template <class Visitor>
    void Visit(Visitor& visit) {
      visit("lap_complete_percent", lap_complete_percent,
            "share of the tiles after which the first one ends the episode");
      visit("domain_randomize", domain_randomize, "other colours in each episode");
      visit("continuous", continuous, "steering, gas and brake, instead of five actions");
    }
  };
  struct ResetOptions {
    bool randomize = true;

    template <class Visitor>
    void Visit(Visitor& visit) {
      visit("randomize", randomize, "with domain_randomize, other colours than before");
    }
  };

  static Specs MakeSpecs(const Options& options) {
    return {
        Observation("observation", Box<std::uint8_t>({96, 96, 3}, 0, 255), "the track from above, RGB"),
        options.continuous
            ? Action("action", Box<float>({3}, std::vector<double>{-1, 0, 0}, std::vector<double>{1, 1, 1}),
                     "steering (-1: left), gas, brake")
            : Action("action", Discrete(5), "nothing, steer right, steer left, gas, brake"),
        Info("lap_finished", Box<bool>({}), "whether the lap was completed, where the episode terminates")};
  }

  explicit CarRacing(const Options& options) : options_(options) {}

  void Seed(Entropy entropy) {
    rng_ = Rng(entropy);
    if (!options_.domain_randomize || world_) return;
    // The colours of a first episode that is not to draw its own. The reference draws these without a seed.
    Rng other = rng_;
    DrawColours(&other);
  }

  void Reset(Row& row, const ResetOptions& options) {
    Clear();
    if (options_.domain_randomize && options.randomize) DrawColours(&rng_);
    episode_.Begin(rng_);
    episode_.free_nodes = b2FreeNodes::Of(*world_);
    Begin();
    Observe(row, reward_, false);
  }

  Outcome Step(Row& row) {
    Command action{};
    if (options_.continuous) {
      std::copy_n(row.Action<float>(), 3, action.begin());
    } else {
      const std::int64_t choice = row.Action<std::int64_t>()[0];
      action[0] = static_cast<float>(choice);
    }
    episode_.Add(action);
    const double score = Advance(action);
    const Outcome outcome = Judge();
    Observe(row, score, outcome.terminated && !IsOut());
    return outcome;
  }

  static ImageSize RenderSize(const Options&) { return kRacePicture; }
  void Render(std::uint8_t* rgb) const { DrawRacePicture(rgb, race_, reward_); }

  template <class Visitor>
  void VisitState(Visitor& visit) {
    visit(rng_, race_.colours);
    episode_.VisitState(visit);
    if constexpr (Visitor::kReading) Replay();
  }

 private:
  using Command = std::array<float, 3>;  // the number of the choice comes first

  void Replay() {
    const Rng rng = rng_;
    rng_ = episode_.rng;
    is_whole_ = false;
    Clear();
    b2FreeNodes::Set(&*world_, episode_.free_nodes);
    Begin();
    for (const Command& action : episode_.actions) {
      Advance(action);
      Judge();
    }
    rng_ = rng;
  }

  void DrawColours(Rng* rng) {
    RaceColours& colours = race_.colours;
    for (double& c : colours.road) c = rng->Uniform(0, 210);
    for (double& c : colours.field) c = rng->Uniform(0, 210);
    colours.grass = colours.field;
    colours.grass[static_cast<std::size_t>(rng->Integers(0, 3))] += 20;
  }

  // Leaves an empty world, destroying in the reference's order: see BipedalWalker.
  void Clear() {
    if (!world_ || !is_whole_) {
      world_.emplace(Vector(0, 0));
    } else if (race_.car.hull()) {
      world_->SetContactListener(nullptr);
      for (const Tile& tile : race_.tiles) world_->DestroyBody(tile.body);
      race_.car.Destroy(&*world_);
    }
    is_whole_ = true;
  }

  void Begin() {
    is_whole_ = false;
    world_->SetContactListener(this);
    reward_ = paid_ = 0;
    visited_ = 0;
    race_.time = 0;
    is_lap_ = false;
    const std::vector<TrackPoint> track = DrawTrack(&rng_);
    LayRoad(&*world_, track, &race_);
    race_.car.Create(&*world_, track[0].beta, track[0].x, track[0].y);
    Move();
    is_whole_ = true;
  }

  // Gives the score that the observation shows.
  double Advance(const Command& action) {
    is_whole_ = false;
    if (options_.continuous) {
      race_.car.Control(-static_cast<double>(action[0]), action[1], action[2]);
    } else {
      const auto choice = static_cast<int>(action[0]);
      race_.car.Control(-0.6 * (choice == 1) + 0.6 * (choice == 2), 0.2 * (choice == 3), 0.8 * (choice == 4));
    }
    Move();
    is_whole_ = true;
    return reward_;
  }
  void Move() {
    race_.car.Advance();
    box2d::Advance(&*world_);
    race_.time += 1.0 / 50;
  }

  // Tiles that the reset's own step touched are paid with the first step.
  Outcome Judge() {
    reward_ -= 0.1;
    const double reward = reward_ - paid_;
    paid_ = reward_;
    if (IsOut()) return {.reward = -100, .terminated = true};
    return {.reward = reward, .terminated = visited_ == race_.tiles.size() || is_lap_};
  }
  bool IsOut() const {
    const b2Vec2 position = race_.car.hull()->GetPosition();
    return std::abs(static_cast<double>(position.x)) > Race::kField ||
           std::abs(static_cast<double>(position.y)) > Race::kField;
  }

  void Observe(Row& row, double score, bool has_finished) const {
    DrawRaceView(row.Out<std::uint8_t>(0), race_, score);
    if (bool* finished = row.Out<bool>(1)) *finished = has_finished;
  }

  void BeginContact(b2Contact* contact) override { Touch(contact, true); }
  void EndContact(b2Contact* contact) override { Touch(contact, false); }
  void Touch(b2Contact* contact, bool begins) {
    b2Body *a = contact->GetFixtureA()->GetBody(), *b = contact->GetFixtureB()->GetBody();
    if (b->GetUserData()) std::swap(a, b);
    auto* tile = static_cast<Tile*>(a->GetUserData());
    if (!tile) return;
    tile->is_touched = true;
    for (Car::Wheel& wheel : race_.car.wheels()) {
      if (wheel.body != b) continue;
      wheel.tiles += begins ? 1 : -1;
      if (begins && !tile->is_visited) Visit(tile);
    }
  }
  void Visit(Tile* tile) {
    const auto count = static_cast<double>(race_.tiles.size());
    tile->is_visited = true;
    reward_ += 1000.0 / count;
    ++visited_;
    if (tile->index == 0 && static_cast<double>(visited_) / count > options_.lap_complete_percent) {
      is_lap_ = true;
    }
  }

  const Options& options_;
  Rng rng_;
  Episode<Command> episode_;
  std::optional<b2World> world_;
  bool is_whole_ = true;  // no step was interrupted by an exception
  Race race_;
  double reward_ = 0, paid_ = 0;
  std::size_t visited_ = 0;
  bool is_lap_ = false;
};

const bool registered = Register<CarRacing>({.id = "CarRacing-v3",
                                             .description = "drive around a random track, from pixels",
                                             .max_episode_steps = 1000,
                                             .reward_threshold = 900});

}  // namespace
}  // namespace torchrl_pool::box2d
