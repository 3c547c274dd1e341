// Walkers on two legs carry a package together. References:
// pettingzoo/sisl/multiwalker/multiwalker_base.py, and TorchRL's PettingZooWrapper, which makes groups and
// entries of agents. What is double here is a Python float there.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "episode.h"
#include "numpy_sum.h"
#include "physics.h"
#include "terrain.h"
#include "torchrl_pool/env.h"
#include "walk_picture.h"
#include "walker.h"

namespace torchrl_pool::sisl {
namespace {

using box2d::F;
using box2d::TorqueOfJoints;
using box2d::Vector;
using box2d::Walk;
using box2d::Walker;
using box2d::WalkPicture;

class Multiwalker : private b2ContactListener {
 public:
  struct Options {
    std::int64_t n_walkers = 3;
    double position_noise = 1e-3, angle_noise = 1e-3;
    double forward_reward = 1.0, terminate_reward = -100.0, fall_reward = -10.0;
    bool shared_reward = true, terminate_on_fall = true, remove_on_fall = true;
    std::int64_t terrain_length = 200, max_cycles = 500;
    std::string group_map = "by_name";
    bool done_on_any = true;

    template <class Visitor>
    void Visit(Visitor& visit) {
      visit("n_walkers", n_walkers, "how many walk", {.minimum = 1, .maximum = 40});
      visit("position_noise", position_noise, "deviation of the neighbours' and the package's positions",
            {.minimum = 0});
      visit("angle_noise", angle_noise, "deviation of the package's angle", {.minimum = 0});
      visit("forward_reward", forward_reward, "for the way of the package");
      visit("terminate_reward", terminate_reward, "for all where an episode ends by a fall, or to the left");
      visit("fall_reward", fall_reward, "for who falls");
      visit("shared_reward", shared_reward, "all walkers get the mean of what each has earned");
      visit("terminate_on_fall", terminate_on_fall, "the first fall of a walker ends the episode for all");
      visit("remove_on_fall", remove_on_fall, "who has fallen is taken away");
      visit("terrain_length", terrain_length, "in steps of the terrain", {.minimum = 1, .maximum = 10'000});
      visit("max_cycles", max_cycles, "steps after which an episode is terminated", {.minimum = 1});
      visit("group_map", group_map, "all walkers share entries, or each has its own",
            {.choices = {"by_name", "one_group_per_agent"}});
      visit(
          "done_on_any", done_on_any,
          "an episode ends when the first walker is done; else with the last, and masks tell who still acts");
    }

    std::size_t GroupSize() const { return group_map == "by_name" ? static_cast<std::size_t>(n_walkers) : 1; }
  };

  static Specs MakeSpecs(const Options& options) {
    const auto size = static_cast<std::int64_t>(options.GroupSize());
    Specs specs;
    for (std::int64_t first = 0; first < options.n_walkers; first += size) {
      const std::string prefix =
          options.group_map == "by_name" ? "walker/" : "walker_" + std::to_string(first) + "/";
      specs.push_back(Observation(prefix + "observation", Box<float>({size, kSeen}),
                                  "itself, what its lidar sees, its neighbours and the package"));
      specs.push_back(Reward(prefix + "reward", {size, 1}));
      for (const char* flag : {"done", "terminated", "truncated"}) {
        specs.push_back(Done(prefix + flag, {size, 1}));
      }
      if (!options.done_on_any) {
        specs.push_back(Observation(prefix + "mask", Box<bool>({size}), "who acts in the next step"));
      }
      specs.push_back(Action(prefix + "action", Box<float>({size, 4}, -1, 1),
                             "torques of hip 1, knee 1, hip 2 and knee 2"));
    }
    specs.push_back(Info("state", Box<float>({options.n_walkers * Walker::kNumbers + 3}),
                         "all walkers, and the place and angle of the package"));
    return specs;
  }

  explicit Multiwalker(const Options& options)
      : options_(options),
        walk_(static_cast<std::size_t>(options.terrain_length)),
        walkers_(static_cast<std::size_t>(options.n_walkers)) {}

  // Each reset seeds the walkers' own streams again, with the same seed.
  void Seed(Entropy entropy) {
    rng_ = Rng(entropy);
    push_ = Rng(entropy).Uniform(-5, 5);
  }

  void Reset(Row& row) {
    episode_.Begin(rng_);
    Begin();
    Write(row);
  }

  Outcome Step(Row& row) {
    std::vector<TorqueOfJoints> torques(walkers_.size());
    for (std::size_t i = 0; i < walkers_.size(); ++i) {
      std::copy_n(row.Action<float>(GroupOf(i)) + 4 * PlaceOf(i), 4, torques[i].begin());
      episode_.Add(torques[i]);
    }
    Advance(torques.data());
    return Write(row);
  }

  static ImageSize RenderSize(const Options&) { return WalkPicture::kSize; }

  void Render(std::uint8_t* rgb) const {
    const auto count = static_cast<double>(walkers_.size());
    std::vector<const Walker*> shown;
    std::vector<double> places;
    for (const Agent& walker : walkers_) {
      shown.push_back(&walker);
      places.push_back(walker.x);
    }
    const double middle = Sum(places.data(), places.size()) / count;
    WalkPicture{.walk = walk_,
                .walkers = shown,
                .number = steps_ + 1,
                .scroll = middle - Walk::kViewWidth / Walk::kScale / 5 - (count - 1) * 10 * Walk::kStep,
                .scale = Walk::kScale / PackageScale() / 0.75,
                .offset = 200,
                .reach = Walk::kViewWidth / Walk::kScale * PackageScale(),
                .package = package_,
                .is_pettingzoos = true}
        .Draw(rgb);
  }

  template <class Visitor>
  void VisitState(Visitor& visit) {
    visit(rng_);
    visit.Bounded(push_, -5, 5);
    std::size_t num_walkers = walkers_.size();
    visit(num_walkers);
    episode_.VisitState(visit);
    if constexpr (Visitor::kReading) {
      if (num_walkers != walkers_.size() || episode_.actions.size() % num_walkers != 0) {
        throw InvalidArgument("expected a saved state of " + std::to_string(walkers_.size()) +
                              " walkers, with all their actions");
      }
      Replay();
    }
  }

 private:
  static constexpr int kSeen = Walker::kNumbers + 7;  // what a walker sees
  // The outputs of each group, in the order of the specs.
  enum Output { kObservation, kReward, kDone, kTerminated, kTruncated, kMask };

  struct Agent : Walker {
    bool has_fallen = false;
    bool is_done = false;
    bool has_left = false;  // it was done before this step
    double shaping = 0;
    double x = 0;  // where its hull was after this step, if it had one
    std::array<float, kSeen> seen{};
  };

  int GroupOf(std::size_t walker) const { return static_cast<int>(walker / options_.GroupSize()); }
  std::size_t PlaceOf(std::size_t walker) const { return walker % options_.GroupSize(); }

  void Replay() {
    const Rng rng = rng_;
    rng_ = episode_.rng;
    Begin();
    for (std::size_t i = 0; i < episode_.actions.size(); i += walkers_.size()) Advance(&episode_.actions[i]);
    rng_ = rng;
  }

  // In a new world. The first walker is at the place of BipedalWalker's.
  void Begin() {
    world_.emplace(Vector(0, -10));
    world_->SetContactListener(this);
    is_over_ = false;
    steps_ = 0;
    package_shaping_ = 0;
    std::fill(walkers_.begin(), walkers_.end(), Agent());
    std::vector<double> places;
    for (std::size_t i = 0; i < walkers_.size(); ++i) {
      places.push_back(Walker::kFirstX + static_cast<double>(10 * i) * Walk::kStep);
    }
    AddPackage(Sum(places.data(), places.size()) / static_cast<double>(places.size()));
    GenerateTerrain(&*world_, &rng_, false, &walk_);
    GenerateClouds(&rng_, &walk_);
    for (std::size_t i = 0; i < walkers_.size(); ++i) {
      b2Filter filter;
      filter.groupIndex = static_cast<std::int16_t>(-static_cast<int>(places[i]));  // it never touches itself
      walkers_[i].Begin(&*world_, places[i], push_, filter);
    }
    Judge();
    for (Agent& walker : walkers_) walker.is_done = false;
    rewards_.assign(walkers_.size(), 0.0);
  }

  double PackageScale() const { return static_cast<double>(walkers_.size()) / 1.75; }

  void AddPackage(double x) {
    constexpr int kCorners[4][2] = {{-120, 5}, {120, 5}, {120, -5}, {-120, -5}};
    b2Vec2 corners[4];
    for (int i = 0; i < 4; ++i) {
      corners[i] = Vector(kCorners[i][0] * PackageScale() / Walk::kScale, kCorners[i][1] / Walk::kScale);
    }
    b2PolygonShape shape;
    shape.Set(corners, 4);
    b2FixtureDef fixture;
    fixture.shape = &shape;
    fixture.density = 1;
    fixture.friction = 0.5f;
    fixture.filter.categoryBits = 4;  // which no lidar sees
    const b2Vec2 place = Vector(x, Walk::kHeight + 3 * Walker::kLegHeight);
    package_ = box2d::AddBody(&*world_, b2_dynamicBody, place, 0, fixture);
  }

  void Advance(const TorqueOfJoints* torques) {
    for (std::size_t i = 0; i < walkers_.size(); ++i) {
      walkers_[i].has_left = walkers_[i].is_done;
      if (!walkers_[i].has_left) walkers_[i].Act(torques[i]);
    }
    box2d::Advance(&*world_);
    Judge();
    steps_ = std::min(steps_ + 1, options_.max_cycles);
    if (steps_ == options_.max_cycles) EndForAll();
  }

  void Judge() {
    rewards_.assign(walkers_.size(), 0.0);
    for (std::size_t i = 0; i < walkers_.size(); ++i) {
      Agent& walker = walkers_[i];
      walker.x = walker.hull ? walker.hull->GetPosition().x : 0;
      if (!walker.hull) {
        walker.seen = {};
        continue;
      }
      Look(i);
      const double shaping = -5.0 * std::abs(static_cast<double>(walker.hull->GetAngle()));
      rewards_[i] = shaping - walker.shaping;
      walker.shaping = shaping;
    }
    const double x = package_->GetPosition().x;
    const double shaping = options_.forward_reward * 130 * x / Walk::kScale;
    for (double& reward : rewards_) reward += shaping - package_shaping_;
    package_shaping_ = shaping;
    JudgeFalls();
    if (is_over_ || x < 0) {
      for (double& reward : rewards_) reward += options_.terminate_reward;
      EndForAll();
    } else if (x > static_cast<double>(options_.terrain_length - 10) * Walk::kStep) {
      EndForAll();
    }
    Share();
  }

  // What it sees of its neighbours and of the package is noisy.
  void Look(std::size_t i) {
    const Agent& walker = walkers_[i];
    const double x = walker.hull->GetPosition().x, y = walker.hull->GetPosition().y;
    const double length = 240 / Walk::kScale * PackageScale();
    float* out = walkers_[i].Observe(*world_, walkers_[i].seen.data());
    const auto see = [&](const b2Body* body) {
      for (const double away : {body->GetPosition().x - x, body->GetPosition().y - y}) {
        *out++ = F(rng_.Normal(away / length, options_.position_noise));
      }
    };
    for (const std::size_t neighbour : {i - 1, i + 1}) {
      if (neighbour < walkers_.size() && walkers_[neighbour].hull) {  // below 0 is above all
        see(walkers_[neighbour].hull);
      } else {
        for (int k = 0; k < 2; ++k) *out++ = 0;
      }
    }
    see(package_);
    *out++ = F(rng_.Normal(package_->GetAngle(), options_.angle_noise));
  }

  void JudgeFalls() {
    for (std::size_t i = 0; i < walkers_.size(); ++i) {
      if (!walkers_[i].has_fallen) continue;
      rewards_[i] += options_.fall_reward;
      if (options_.remove_on_fall && walkers_[i].hull) walkers_[i].End(&*world_);
      if (options_.terminate_on_fall) {
        is_over_ = true;
      } else {
        rewards_[i] += options_.terminate_reward;
      }
      walkers_[i].is_done = true;
    }
  }

  void EndForAll() {
    for (Agent& walker : walkers_) walker.is_done = true;
  }

  void Share() {
    const double mean = Sum(rewards_.data(), rewards_.size()) / static_cast<double>(rewards_.size());
    const double own = options_.shared_reward ? 0 : 1;
    for (double& reward : rewards_) reward = mean * (1.0 - own) + reward * own * own;
  }

  // As TorchRL has them: who has left the episode is done in every way.
  Outcome Write(Row& row) {
    const int num_outputs = options_.done_on_any ? kMask : kMask + 1;
    std::size_t num_done = 0, num_left = 0;
    for (std::size_t i = 0; i < walkers_.size(); ++i) {
      const Agent& walker = walkers_[i];
      const int first = GroupOf(i) * num_outputs;
      const std::size_t place = PlaceOf(i);
      float* seen = row.Out<float>(first + kObservation) + place * kSeen;
      if (walker.has_left) {
        std::fill_n(seen, kSeen, 0.0f);
      } else {
        std::copy(walker.seen.begin(), walker.seen.end(), seen);
      }
      row.Out<float>(first + kReward)[place] = walker.has_left ? 0.0f : F(0.0 + rewards_[i]);  // never -0
      row.Out<bool>(first + kDone)[place] = walker.is_done;
      row.Out<bool>(first + kTerminated)[place] = walker.is_done;
      row.Out<bool>(first + kTruncated)[place] = walker.has_left;
      if (!options_.done_on_any) row.Out<bool>(first + kMask)[place] = !walker.is_done;
      num_done += walker.is_done;
      num_left += walker.has_left;
    }
    const int num_groups = GroupOf(walkers_.size() - 1) + 1;
    if (float* state = row.Out<float>(num_groups * num_outputs)) {
      for (const Agent& walker : walkers_) state = std::copy_n(walker.seen.begin(), Walker::kNumbers, state);
      *state++ = package_->GetPosition().x;
      *state++ = package_->GetPosition().y;
      *state++ = package_->GetAngle();
    }
    const std::size_t needed = options_.done_on_any ? 1 : walkers_.size();
    return {.terminated = num_done >= needed, .truncated = num_left >= needed};
  }

  void BeginContact(b2Contact* contact) override {
    bool is_held = false;
    const bool is_of_package = box2d::Touches(contact, package_);
    for (Agent& walker : walkers_) {
      if (!walker.hull || !box2d::Touches(contact, walker.hull)) continue;
      (is_of_package ? is_held : walker.has_fallen) = true;
    }
    is_over_ = is_over_ || (is_of_package && !is_held);
    for (Agent& walker : walkers_) walker.SetContact(contact, true);
  }
  void EndContact(b2Contact* contact) override {
    for (Agent& walker : walkers_) walker.SetContact(contact, false);
  }

  const Options& options_;
  Walk walk_;
  std::vector<Agent> walkers_;
  std::vector<double> rewards_;
  Rng rng_;
  double push_ = 0;
  box2d::Episode<TorqueOfJoints> episode_;
  std::optional<b2World> world_;  // a new one for each episode
  b2Body* package_ = nullptr;
  bool is_over_ = false;
  std::int64_t steps_ = 0;
  double package_shaping_ = 0;
};

const bool registered = Register<Multiwalker>(
    {.id = "sisl/multiwalker_v9", .description = "walkers on two legs carry a package together"});

}  // namespace
}  // namespace torchrl_pool::sisl
