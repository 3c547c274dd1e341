#include "track.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "physics.h"

namespace torchrl_pool::box2d {
namespace {

using std::numbers::pi;
using Track = std::vector<TrackPoint>;

constexpr int kCheckpoints = 12;
constexpr double kTurnRate = Race::kTurnRate;

struct Checkpoint {
  double alpha, x, y;
};
using Checkpoints = std::array<Checkpoint, kCheckpoints>;

double SideOf(double value) { return (value > 0) - (value < 0); }

// Of a number, what Python's negative indices mean.
std::size_t Wrapped(int i, std::size_t count) {
  return static_cast<std::size_t>(i < 0 ? i + static_cast<int>(count) : i);
}

Checkpoints DrawCheckpoints(Rng* rng) {
  Checkpoints checkpoints;
  for (int i = 0; i < kCheckpoints; ++i) {
    const double noise = rng->Uniform(0, 2 * pi * 1 / kCheckpoints);
    double alpha = 2 * pi * i / kCheckpoints + noise;
    double radius = rng->Uniform(Race::kTrackRadius / 3, Race::kTrackRadius);
    const bool is_last = i == kCheckpoints - 1;
    if (i == 0 || is_last) {
      alpha = is_last ? 2 * pi * i / kCheckpoints : 0;
      radius = 1.5 * Race::kTrackRadius;
    }
    checkpoints[i] = {alpha, radius * std::cos(alpha), radius * std::sin(alpha)};
  }
  return checkpoints;
}

// Goes from checkpoint to checkpoint, for several laps.
class Surveyor {
 public:
  explicit Surveyor(const Checkpoints& checkpoints) : checkpoints_(checkpoints) {}

  Track Survey() {
    Track track;
    int laps = 0;
    bool is_behind = false;
    for (int left = 2500; left > 0 && laps <= 4; --left) {
      double alpha = std::atan2(y_, x_);
      if (is_behind && alpha > 0) {
        ++laps;
        is_behind = false;
      }
      if (alpha < 0) {
        is_behind = true;
        alpha += 2 * pi;
      }
      const Checkpoint& next = Next(&alpha);
      const double before = Turn(alpha, next);
      track.push_back({alpha, before * 0.5 + beta_ * 0.5, x_, y_});
    }
    return track;
  }

 private:
  const Checkpoint& Next(double* alpha) {
    for (;;) {
      do {
        const Checkpoint& checkpoint = checkpoints_[static_cast<std::size_t>(target_ % kCheckpoints)];
        if (*alpha <= checkpoint.alpha) return checkpoint;
      } while (++target_ % kCheckpoints != 0);
      *alpha -= 2 * pi;
    }
  }

  // Takes one step; gives the way that was ahead before.
  double Turn(double alpha, const Checkpoint& next) {
    const double right_x = std::cos(beta_), right_y = std::sin(beta_), ahead_x = -right_y, ahead_y = right_x;
    const double aside = (right_x * (next.x - x_) + right_y * (next.y - y_)) * Race::kScale;
    while (beta_ - alpha > 1.5 * pi) beta_ -= 2 * pi;
    while (beta_ - alpha < -1.5 * pi) beta_ += 2 * pi;
    const double before = beta_;
    if (aside > 0.3) beta_ -= std::min(kTurnRate, std::abs(0.001 * aside));
    if (aside < -0.3) beta_ += std::min(kTurnRate, std::abs(0.001 * aside));
    x_ += ahead_x * Race::kDetail;
    y_ += ahead_y * Race::kDetail;
    return before;
  }

  const Checkpoints& checkpoints_;
  int target_ = 0;
  double x_ = 1.5 * Race::kTrackRadius, y_ = 0, beta_ = 0;
};

// The second lap, or nothing where it does not close.
Track OneLap(const Track& laps) {
  const double start = 2 * pi * (-0.5) / kCheckpoints;
  std::size_t first = 0, last = 0;
  for (std::size_t i = laps.size() - 1; i > 0 && first == 0; --i) {
    if (!(laps[i].alpha > start && laps[i - 1].alpha <= start)) continue;
    (last == 0 ? last : first) = i;
  }
  if (first == 0) return {};
  const auto at = [&laps](std::size_t i) { return laps.begin() + static_cast<std::ptrdiff_t>(i); };
  Track lap(at(first), at(last - 1));
  const TrackPoint &head = lap.front(), &tail = lap.back();
  const double gap_x = std::cos(head.beta) * (head.x - tail.x),
               gap_y = std::sin(head.beta) * (head.y - tail.y);
  if (std::sqrt(gap_x * gap_x + gap_y * gap_y) > Race::kDetail) return {};
  return lap;
}

// Where the road has a border: along hard turns.
std::vector<char> Borders(const Track& track) {
  constexpr int kMinCount = 4;
  const std::size_t count = track.size();
  std::vector<char> border(count);
  for (int i = 0; i < static_cast<int>(count); ++i) {
    bool is_hard = true;
    double side = 0;
    for (int k = 0; k < kMinCount; ++k) {
      const double turn = track[Wrapped(i - k, count)].beta - track[Wrapped(i - k - 1, count)].beta;
      is_hard = is_hard && std::abs(turn) > kTurnRate * 0.2;
      side += SideOf(turn);
    }
    border[static_cast<std::size_t>(i)] = is_hard && std::abs(side) == kMinCount;
  }
  for (int i = 0; i < static_cast<int>(count); ++i) {
    for (int k = 0; k < kMinCount; ++k) border[Wrapped(i - k, count)] |= border[static_cast<std::size_t>(i)];
  }
  return border;
}

void AddTile(b2World* world, const Quad& quad, Race* race) {
  b2Vec2 corners[4];
  for (std::size_t k = 0; k < 4; ++k) corners[k] = Vector(quad.x[k], quad.y[k]);
  b2PolygonShape shape;
  shape.Set(corners, 4);
  b2FixtureDef fixture;
  fixture.shape = &shape;
  b2Body* body = AddBody(world, b2_staticBody, Vector(0, 0), 0, fixture);
  race->tiles.push_back({.body = body, .index = quad.tile});
  body->SetUserData(&race->tiles.back());
  body->GetFixtureList()->SetSensor(true);
}

}  // namespace

std::vector<TrackPoint> DrawTrack(Rng* rng) {
  for (;;) {
    const Checkpoints checkpoints = DrawCheckpoints(rng);
    Track lap = OneLap(Surveyor(checkpoints).Survey());
    if (!lap.empty()) return lap;
  }
}

void LayRoad(b2World* world, const std::vector<TrackPoint>& track, Race* race) {
  const std::vector<char> border = Borders(track);
  race->quads.clear();
  race->tiles.clear();
  race->tiles.reserve(track.size());  // bodies point to them
  for (int i = 0; i < static_cast<int>(track.size()); ++i) {
    const TrackPoint &a = track[static_cast<std::size_t>(i)], &b = track[Wrapped(i - 1, track.size())];
    const double ac = std::cos(a.beta), as = std::sin(a.beta), bc = std::cos(b.beta), bs = std::sin(b.beta);
    const auto quad = [&](double left, double right, int tile) {
      return Quad{{a.x + left * ac, a.x + right * ac, b.x + right * bc, b.x + left * bc},
                  {a.y + left * as, a.y + right * as, b.y + right * bs, b.y + left * bs},
                  tile,
                  i % 2 == 0};
    };
    race->quads.push_back(quad(-Race::kTrackWidth, Race::kTrackWidth, i));
    AddTile(world, race->quads.back(), race);
    if (border[static_cast<std::size_t>(i)]) {
      const double side = SideOf(b.beta - a.beta);
      race->quads.push_back(quad(side * Race::kTrackWidth, side * (Race::kTrackWidth + Race::kBorder), -1));
    }
  }
}

}  // namespace torchrl_pool::box2d
