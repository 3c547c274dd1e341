// Taxi: fetch a passenger and bring him to his destination.
// Dietterich (2000); reference: gymnasium/envs/toy_text/taxi.py.
#include <algorithm>
#include <array>
#include <string>

#include "categorical.h"
#include "picture.h"
#include "torchrl_pool/env.h"

namespace torchrl_pool::toy_text {
namespace {

constexpr std::int64_t kSize = 5;
constexpr std::int64_t kInTaxi = 4;
constexpr std::int64_t kStates = kSize * kSize * 5 * 4;
enum { kSouth, kNorth, kEast, kWest, kPickUp, kDropOff };

struct Place {
  std::int64_t row, column;
  bool operator==(const Place&) const = default;
};
constexpr std::array<Place, 4> kStands = {{{0, 0}, {0, 4}, {4, 0}, {4, 3}}};

struct State {
  Place taxi{};
  std::int64_t passenger = 0;  // a stand, or kInTaxi
  std::int64_t destination = 0;

  static State Decode(std::int64_t code) { return {{code / 100, code / 20 % 5}, code / 4 % 5, code % 4}; }
  std::int64_t Encode() const { return ((taxi.row * 5 + taxi.column) * 5 + passenger) * 4 + destination; }
};

// Whether a taxi can go from a place to the east.
bool IsOpenToTheEast(Place place) {
  constexpr const char* kWalls[] = {" |  ", " |  ", "    ", "| | ",
                                    "| | "};  // east of each column but the last
  return place.column >= 0 && place.column < kSize - 1 && kWalls[place.row][place.column] == ' ';
}

bool IsOpen(Place from, std::int64_t heading) {
  switch (heading) {
    case kSouth:
      return from.row < kSize - 1;
    case kNorth:
      return from.row > 0;
    case kEast:
      return IsOpenToTheEast(from);
    default:
      return IsOpenToTheEast({from.row, from.column - 1});
  }
}

Place Go(Place from, std::int64_t heading) {
  if (!IsOpen(from, heading)) return from;
  constexpr std::int64_t kDown[] = {1, -1, 0, 0}, kRight[] = {0, 0, 1, -1};
  return {from.row + kDown[heading], from.column + kRight[heading]};
}

bool IsStand(Place place) { return std::find(kStands.begin(), kStands.end(), place) != kStands.end(); }

class Taxi {
 public:
  struct Options {
    bool is_rainy = false;
    bool fickle_passenger = false;
    double rainy_probability = 0.8;
    double fickle_probability = 0.3;

    template <class Visitor>
    void Visit(Visitor& visit) {
      const Limits<double> probability = {.minimum = 0, .maximum = 1};
      visit("is_rainy", is_rainy, "moves may go to either side of where they were meant to");
      visit("fickle_passenger", fickle_passenger, "passengers may change their minds after the first move");
      visit("rainy_probability", rainy_probability, "probability of the meant move in rain", probability);
      visit("fickle_probability", fickle_probability, "probability that a passenger is fickle", probability);
    }

    void Open() {
      std::vector<double> starts(kStates);
      for (std::int64_t code = 0; code < kStates; ++code) {
        const State state = State::Decode(code);
        const bool possible = state.passenger != kInTaxi && state.passenger != state.destination;
        starts[static_cast<std::size_t>(code)] = possible / 300.0;
      }
      start = Categorical(starts);
      const double aside = (1.0 - rainy_probability) / 2.0;
      drifting = {rainy_probability, aside, aside};
      drift = Categorical(drifting);
    }

    Categorical start{}, drift{};
    std::array<double, 3> drifting{};
  };

  static Specs MakeSpecs(const Options&) {
    return {Observation("observation", Discrete(kStates),
                        "((row * 5 + column) * 5 + passenger) * 4 + destination"),
            Action("action", Discrete(6), "south, north, east, west, pick up, drop off"),
            Info("prob", Box<double>({}, 0, 1), "probability of the last transition"),
            Info("action_mask", MultiBinary({6}), "the actions that change the state")};
  }

  explicit Taxi(const Options& options) : options_(options) {}

  void Seed(Entropy entropy) { rng_ = Rng(entropy); }

  void Reset(Row& row) {
    state_ = State::Decode(options_.start.Draw(rng_));
    heading_ = kSouth;
    fickle_ = options_.fickle_passenger && rng_.Random() < options_.fickle_probability;
    Write(row, 1);
  }

  Outcome Step(Row& row) {
    const std::int64_t action = row.Action<std::int64_t>()[0];
    const State before = state_;
    if (action < kPickUp) heading_ = action;
    Outcome outcome{.reward = -1};
    double probability = 1;
    if (action < kPickUp && options_.is_rainy) {
      probability = Drift(action);
    } else {
      rng_.Random();
      if (action < kPickUp) state_.taxi = Go(state_.taxi, action);
      if (action == kPickUp) PickUp(&outcome);
      if (action == kDropOff) DropOff(&outcome);
    }
    if (fickle_ && before.passenger == kInTaxi && state_.taxi != before.taxi) {
      fickle_ = false;
      const std::int64_t other = rng_.Choice(3);
      state_.destination = other + (other >= before.destination);
    }
    Write(row, probability);
    return outcome;
  }

  static ImageSize RenderSize(const Options&) { return {456, 536}; }

  void Render(std::uint8_t* rgb) const {
    pictures::Picture picture(rgb, RenderSize(options_), {250, 250, 246});
    const auto load = [](const std::string& name) -> const pictures::Image& {
      return pictures::GymnasiumImage("toy_text/img/taxi/" + name);
    };
    const auto draw = [&](const pictures::Image& image, Place place, std::int64_t dx, std::int64_t dy) {
      picture.Blit(image, 48 + place.column * 88 + dx, 128 + place.row * 56 + dy);
    };
    picture.Blit(load("background"), 0, 80);
    picture.Blit(load("house"), 403, 36);
    draw(load("marker_destination"), kStands[static_cast<std::size_t>(state_.destination)], 0, 0);
    const bool is_full = state_.passenger == kInTaxi;
    if (!is_full) draw(load("passenger"), kStands[static_cast<std::size_t>(state_.passenger)], 35, 19);
    const bool is_vertical = heading_ <= kNorth;
    const auto& taxi = load(std::string(is_vertical ? "taxi_v" : "taxi_h") + (is_full ? "_full" : ""));
    const std::int64_t dx = is_vertical ? 25 : 15, dy = is_vertical ? 0 : 9;
    if (heading_ == kSouth) {
      draw(pictures::FlippedUpDown(taxi), state_.taxi, dx, dy);
    } else if (heading_ == kWest) {
      draw(pictures::FlippedLeftRight(taxi), state_.taxi, dx, dy);
    } else {
      draw(taxi, state_.taxi, dx, dy);
    }
  }

  template <class Visitor>
  void VisitState(Visitor& visit) {
    visit(rng_);
    visit.Bounded(state_.taxi.row, 0, kSize - 1);
    visit.Bounded(state_.taxi.column, 0, kSize - 1);
    visit.Bounded(state_.passenger, 0, kInTaxi);
    visit.Bounded(state_.destination, 0, 3);
    visit(fickle_);
    visit.Bounded(heading_, kSouth, kWest);
  }

 private:
  // Moves in rain and gives the probability of that. Where the way is blocked there is no drift, but a draw.
  double Drift(std::int64_t heading) {
    constexpr std::int64_t kLeft[] = {kEast, kWest, kNorth, kSouth},
                           kRight[] = {kWest, kEast, kSouth, kNorth};
    const std::int64_t way = options_.drift.Draw(rng_);
    if (IsOpen(state_.taxi, heading)) {
      state_.taxi = Go(state_.taxi, way == 0 ? heading : way == 1 ? kLeft[heading] : kRight[heading]);
    }
    return options_.drifting[static_cast<std::size_t>(way)];
  }

  void PickUp(Outcome* outcome) {
    if (state_.passenger != kInTaxi && state_.taxi == kStands[static_cast<std::size_t>(state_.passenger)]) {
      state_.passenger = kInTaxi;
    } else {
      outcome->reward = -10;
    }
  }

  void DropOff(Outcome* outcome) {
    if (state_.passenger != kInTaxi || !IsStand(state_.taxi)) {
      outcome->reward = -10;
      return;
    }
    const auto stand = std::find(kStands.begin(), kStands.end(), state_.taxi) - kStands.begin();
    state_.passenger = stand;
    if (stand == state_.destination) {
      outcome->reward = 20;
      outcome->terminated = true;
    }
  }

  void Write(Row& row, double probability) const {
    row.Out<std::int64_t>(0)[0] = state_.Encode();
    if (double* prob = row.Out<double>(1)) *prob = probability;
    if (auto* mask = row.Out<std::int8_t>(2)) {
      for (std::int64_t heading = kSouth; heading <= kWest; ++heading) {
        mask[heading] = IsOpen(state_.taxi, heading);
      }
      mask[kPickUp] =
          state_.passenger != kInTaxi && state_.taxi == kStands[static_cast<std::size_t>(state_.passenger)];
      mask[kDropOff] = state_.passenger == kInTaxi && IsStand(state_.taxi);
    }
  }

  const Options& options_;
  Rng rng_;
  State state_;
  bool fickle_ = false;            // the passenger will still change his mind
  std::int64_t heading_ = kSouth;  // of the last move: Gymnasium turns the taxi when it draws it
};

const bool registered = Register<Taxi>({.id = "Taxi-v4",
                                        .description = "fetch a passenger and bring him to his destination",
                                        .max_episode_steps = 200,
                                        .reward_threshold = 8});

}  // namespace
}  // namespace torchrl_pool::toy_text
