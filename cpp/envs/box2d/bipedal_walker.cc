// BipedalWalker: walk to the far end on two legs, over slightly uneven ground or over stumps, stairs and
// pits. Oleg Klimov's; reference: gymnasium/envs/box2d/bipedal_walker.py. What is double here is a Python
// float there.
#include <algorithm>
#include <cmath>
#include <numbers>
#include <optional>

#include "episode.h"
#include "physics.h"
#include "terrain.h"
#include "torchrl_pool/env.h"
#include "walk_picture.h"
#include "walker.h"

namespace torchrl_pool::box2d {

namespace {

// The default of two registered tasks.
template <bool is_hardcore>
class BipedalWalker : private b2ContactListener {
 public:
  struct Options {
    bool hardcore = is_hardcore;

    template <class Visitor>
    void Visit(Visitor& visit) {
      visit("hardcore", hardcore, "stumps, stairs and pits");
    }
  };

  static Specs MakeSpecs(const Options&) {
    const double turn = static_cast<float>(std::numbers::pi);
    std::vector<double> high = {turn, 5, 5, 5, turn, 5, turn, 5, 5, turn, 5, turn, 5, 5}, low = high;
    for (double& bound : low) bound = -bound;
    low[8] = low[13] = -0.0;
    high.insert(high.end(), Walker::kRays, 1);
    low.insert(low.end(), Walker::kRays, -1);
    return {
        Observation(
            "observation", Box<float>({24}, low, high),
            "hull angle, hull angular velocity, velocity x, velocity y, hip 1 angle, hip 1 speed, "
            "knee 1 angle, knee 1 speed, leg 1 touches the ground, hip 2 angle, hip 2 speed, "
            "knee 2 angle, knee 2 speed, leg 2 touches the ground, lidar 1 (straight down), lidar 2, "
            "lidar 3, lidar 4, lidar 5, lidar 6, lidar 7, lidar 8, lidar 9, lidar 10 (straight ahead)"),
        Action("action", Box<float>({4}, -1, 1), "hip 1 torque, knee 1 torque, hip 2 torque, knee 2 torque")};
  }

  explicit BipedalWalker(const Options& options) : options_(options) {}

  void Seed(Entropy entropy) { rng_ = Rng(entropy); }

  // The world lives on from one episode to the next, as the reference's: what was destroyed in it decides
  // which numbers the next fixtures get, and these the order in which contacts are solved.
  void Reset(Row& row) {
    Clear();
    episode_.Begin(rng_);
    episode_.free_nodes = b2FreeNodes::Of(*world_);
    Begin(row.Out<float>());
  }

  Outcome Step(Row& row) {
    Command action;
    std::copy_n(row.Action<float>(), 4, action.begin());
    episode_.Add(action);
    return Advance(action, row.Out<float>());
  }

  static ImageSize RenderSize(const Options&) { return WalkPicture::kSize; }
  void Render(std::uint8_t* rgb) const {
    const double scroll = walker_.hull->GetPosition().x - Walk::kViewWidth / Walk::kScale / 5;
    WalkPicture{.walk = walk_, .walkers = {&walker_}, .number = pictures_, .scroll = scroll}.Draw(rgb);
  }

  template <class Visitor>
  void VisitState(Visitor& visit) {
    visit(rng_);
    episode_.VisitState(visit);
    if constexpr (Visitor::kReading) Replay();
  }

 private:
  using Command = TorqueOfJoints;
  static constexpr int kLength = 200;  // of the terrain, in steps

  void Replay() {
    const Rng rng = rng_;
    rng_ = episode_.rng;
    is_whole_ = false;
    Clear();
    b2FreeNodes::Set(&*world_, episode_.free_nodes);
    float observation[Walker::kNumbers];
    Begin(observation);
    for (const Command& action : episode_.actions) Advance(action, observation);
    rng_ = rng;
  }

  // Leaves an empty world, destroying in the reference's order. One that a step has left behind half done is
  // replaced.
  void Clear() {
    if (!world_ || !is_whole_) {
      world_.emplace(Vector(0, -10));
    } else if (walker_.hull) {
      world_->SetContactListener(nullptr);
      for (auto edge = walk_.edges.rbegin(); edge != walk_.edges.rend(); ++edge) world_->DestroyBody(*edge);
      for (auto body = walk_.obstacles.rbegin(); body != walk_.obstacles.rend(); ++body) {
        world_->DestroyBody(*body);
      }
      walker_.End(&*world_);
    }
    walker_ = {};
    walk_.obstacles.clear();
    is_whole_ = true;
  }

  void Begin(float* observation) {
    is_whole_ = false;
    world_->SetContactListener(this);
    is_over_ = false;
    shaping_.reset();
    pictures_ = 0;
    GenerateTerrain(&*world_, &rng_, options_.hardcore, &walk_);
    GenerateClouds(&rng_, &walk_);
    b2Filter filter;
    filter.categoryBits = 0x20;
    filter.maskBits = 1;  // it touches the ground alone
    walker_.Begin(&*world_, Walker::kFirstX, rng_.Uniform(-5, 5), filter);
    Advance({}, observation);
  }

  Outcome Advance(const Command& action, float* observation) {
    is_whole_ = false;
    walker_.Act(action);
    box2d::Advance(&*world_);
    ++pictures_;
    const Outcome outcome = Judge(action, observation);
    is_whole_ = true;
    return outcome;
  }

  Outcome Judge(const Command& action, float* observation) {
    walker_.Observe(*world_, observation);
    const b2Body& hull = *walker_.hull;
    const double x = hull.GetPosition().x, angle = hull.GetAngle();
    const double shaping = 130 * x / Walk::kScale - 5.0 * std::abs(angle);
    // By NumPy's rules (NEP 50) a Python float less a float32 is a float32: so is what is left of this.
    float reward = shaping_ ? F(shaping - *shaping_) : 0;
    shaping_ = shaping;
    for (const float torque : action) reward -= F(0.00035 * Walker::kTorque) * Walker::Strength(torque);
    const bool has_fallen = is_over_ || x < 0;
    return {.reward = has_fallen ? -100.0 : reward,
            .terminated = has_fallen || x > (kLength - 10) * Walk::kStep};
  }

  void BeginContact(b2Contact* contact) override {
    is_over_ = is_over_ || Touches(contact, walker_.hull);
    walker_.SetContact(contact, true);
  }
  void EndContact(b2Contact* contact) override { walker_.SetContact(contact, false); }

  const Options& options_;
  Rng rng_;
  Episode<Command> episode_;
  std::optional<b2World> world_;
  bool is_whole_ = true;  // no step was interrupted by an exception
  Walk walk_{kLength};
  Walker walker_;
  std::int64_t pictures_ = 0;  // since the reset, if every state is shown once
  bool is_over_ = false;
  std::optional<double> shaping_;
};

const bool registered =
    Register<BipedalWalker<false>>({.id = "BipedalWalker-v3",
                                    .description = "walk to the far end on two legs",
                                    .max_episode_steps = 1600,
                                    .reward_threshold = 300}) &&
    Register<BipedalWalker<true>>({.id = "BipedalWalkerHardcore-v3",
                                   .description = "walk over stumps, stairs and pits on two legs",
                                   .max_episode_steps = 2000,
                                   .reward_threshold = 300});

}  // namespace
}  // namespace torchrl_pool::box2d
