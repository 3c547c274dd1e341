// BipedalWalker: walk to the far end on two legs, over slightly uneven ground or over stumps, stairs and
// pits. Oleg Klimov's; reference: gymnasium/envs/box2d/bipedal_walker.py. What is double here is a Python
// float there.
#include "bipedal_walker.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <optional>

#include "episode.h"
#include "physics.h"
#include "terrain.h"

namespace torchrl_pool::box2d {

LidarRay::LidarRay(const b2World& world, const b2Vec2& from, int number) {
  const double x = from.x, y = from.y, angle = 1.5 * number / 10.0;
  end = {x + std::sin(angle) * Walk::kLidarRange, y - std::cos(angle) * Walk::kLidarRange};
  world.RayCast(this, from, Vector(end.first, end.second));
}
float32 LidarRay::ReportFixture(b2Fixture* fixture, const b2Vec2& point, const b2Vec2&, float32 where) {
  if ((fixture->GetFilterData().categoryBits & 1) == 0) return -1;  // the walker itself
  fraction = where;
  end = {point.x, point.y};
  return where;
}

namespace {

constexpr double kScale = Walk::kScale;
constexpr double kLegDown = -8 / kScale, kLegWidth = 8 / kScale, kLegHeight = 34 / kScale;
constexpr int kHipSpeed = 4, kKneeSpeed = 6, kTorque = 80;

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
    high.insert(high.end(), Walk::kRays, 1);
    low.insert(low.end(), Walk::kRays, -1);
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

  static ImageSize RenderSize(const Options&) { return kWalkPicture; }
  void Render(std::uint8_t* rgb) const { DrawWalk(rgb, scene_, *world_); }

  template <class Visitor>
  void VisitState(Visitor& visit) {
    visit(rng_);
    episode_.VisitState(visit);
    if constexpr (Visitor::kReading) {
      world_.reset();
      if (episode_.begun) Replay();
    }
  }

 private:
  using Command = std::array<float, 4>;

  void Replay() {
    const Rng rng = rng_;
    rng_ = episode_.rng;
    is_whole_ = false;
    Clear();
    b2FreeNodes::Set(&*world_, episode_.free_nodes);
    float observation[24];
    Begin(observation);
    for (const Command& action : episode_.actions) Advance(action, observation);
    rng_ = rng;
  }

  // Leaves an empty world, destroying in the reference's order. One that a step has left behind half done is
  // replaced.
  void Clear() {
    if (!world_ || !is_whole_) {
      world_.emplace(Vector(0, -10));
    } else if (scene_.hull) {
      world_->SetContactListener(nullptr);
      for (auto edge = scene_.edges.rbegin(); edge != scene_.edges.rend(); ++edge) world_->DestroyBody(*edge);
      for (auto body = scene_.obstacles.rbegin(); body != scene_.obstacles.rend(); ++body) {
        world_->DestroyBody(*body);
      }
      world_->DestroyBody(scene_.hull);
      for (b2Body* leg : scene_.legs) world_->DestroyBody(leg);
    }
    scene_.hull = nullptr;
    scene_.legs = {};
    scene_.obstacles.clear();
    is_whole_ = true;
  }

  void Begin(float* observation) {
    is_whole_ = false;
    world_->SetContactListener(this);
    is_over_ = false;
    shaping_.reset();
    contact_ = {};
    scene_.pictures = 0;
    GenerateTerrain(&*world_, &rng_, options_.hardcore, &scene_);
    GenerateClouds(&rng_, &scene_);
    AddWalker();
    Advance({}, observation);
  }

  void AddWalker() {
    const double x = Walk::kStep * 20 / 2, y = Walk::kHeight + 2 * kLegHeight;
    constexpr int kCorners[5][2] = {{-30, 9}, {6, 9}, {34, 1}, {34, -8}, {-30, -8}};
    b2Vec2 corners[5];
    for (int i = 0; i < 5; ++i) corners[i] = Vector(kCorners[i][0] / kScale, kCorners[i][1] / kScale);
    b2PolygonShape shape;
    shape.Set(corners, 5);
    b2FixtureDef hull = Part(shape, 5, 0x20);
    hull.friction = F(0.1);
    scene_.hull = AddBody(&*world_, b2_dynamicBody, Vector(x, y), 0, hull);
    scene_.hull->ApplyForceToCenter(Vector(rng_.Uniform(-5, 5), 0), true);
    b2PolygonShape upper, lower;
    upper.SetAsBox(F(kLegWidth / 2), F(kLegHeight / 2));
    lower.SetAsBox(F(0.8 * kLegWidth / 2), F(kLegHeight / 2));
    for (const int leg : {0, 1}) {
      const int side = leg == 0 ? -1 : 1;
      const float angle = F(side * 0.05);
      b2Body* thigh = AddBody(&*world_, b2_dynamicBody, Vector(x, y - kLegHeight / 2 - kLegDown), angle,
                              Part(upper, 1, 0x20));
      joints_[2 * leg] =
          AddJoint(&*world_, scene_.hull, thigh, Vector(0, kLegDown), Vector(0, kLegHeight / 2),
                   {.torque = kTorque, .speed = static_cast<double>(side), .lower = -0.8, .upper = 1.1});
      b2Body* shin = AddBody(&*world_, b2_dynamicBody, Vector(x, y - kLegHeight * 3 / 2 - kLegDown), angle,
                             Part(lower, 1, 0x20));
      joints_[2 * leg + 1] =
          AddJoint(&*world_, thigh, shin, Vector(0, -kLegHeight / 2), Vector(0, kLegHeight / 2),
                   {.torque = kTorque, .speed = 1, .lower = -1.6, .upper = -0.1});
      scene_.legs[2 * leg] = thigh;
      scene_.legs[2 * leg + 1] = shin;
    }
  }

  static float Strength(float action) { return std::min(std::abs(action), 1.0f); }

  Outcome Advance(const Command& action, float* observation) {
    is_whole_ = false;
    for (int i = 0; i < 4; ++i) {
      const int speed = i % 2 == 0 ? kHipSpeed : kKneeSpeed;
      const float way =
          std::isnan(action[i]) ? action[i] : static_cast<float>((action[i] > 0) - (action[i] < 0));
      joints_[i]->SetMotorSpeed(static_cast<float>(speed) * way);
      joints_[i]->SetMaxMotorTorque(static_cast<float>(kTorque) * Strength(action[i]));
    }
    box2d::Advance(&*world_);
    ++scene_.pictures;
    const Outcome outcome = Judge(action, observation);
    is_whole_ = true;
    return outcome;
  }

  Outcome Judge(const Command& action, float* observation) {
    const b2Vec2 position = scene_.hull->GetPosition(), velocity = scene_.hull->GetLinearVelocity();
    const double x = position.x, angle = scene_.hull->GetAngle();
    float* out = observation;
    *out++ = F(angle);
    *out++ = F(2.0 * scene_.hull->GetAngularVelocity() / 50);
    *out++ = F(0.3 * velocity.x * (Walk::kViewWidth / kScale) / 50);
    *out++ = F(0.3 * velocity.y * (Walk::kViewHeight / kScale) / 50);
    for (int leg = 0; leg < 2; ++leg) {
      const b2RevoluteJoint *hip = joints_[2 * leg], *knee = joints_[2 * leg + 1];
      *out++ = hip->GetJointAngle();
      *out++ = F(static_cast<double>(hip->GetJointSpeed()) / kHipSpeed);
      *out++ = F(knee->GetJointAngle() + 1.0);
      *out++ = F(static_cast<double>(knee->GetJointSpeed()) / kKneeSpeed);
      *out++ = contact_[leg] ? 1.0f : 0.0f;
    }
    for (int ray = 0; ray < Walk::kRays; ++ray) *out++ = F(LidarRay(*world_, position, ray).fraction);

    const double shaping = 130 * x / kScale - 5.0 * std::abs(angle);
    // By NumPy's rules (NEP 50) a Python float less a float32 is a float32: so is what is left of this.
    float reward = shaping_ ? F(shaping - *shaping_) : 0;
    shaping_ = shaping;
    for (const float torque : action) reward -= F(0.00035 * kTorque) * Strength(torque);
    const bool has_fallen = is_over_ || x < 0;
    return {.reward = has_fallen ? -100.0 : reward,
            .terminated = has_fallen || x > (Walk::kLength - 10) * Walk::kStep};
  }

  void BeginContact(b2Contact* contact) override {
    is_over_ = is_over_ || Touches(contact, scene_.hull);
    SetContact(contact, true);
  }
  void EndContact(b2Contact* contact) override { SetContact(contact, false); }
  void SetContact(b2Contact* contact, bool value) {
    for (int leg = 0; leg < 2; ++leg) {
      if (Touches(contact, scene_.legs[2 * leg + 1])) contact_[leg] = value;
    }
  }

  const Options& options_;
  Rng rng_;
  Episode<Command> episode_;
  std::optional<b2World> world_;
  bool is_whole_ = true;  // no step was interrupted by an exception
  Walk scene_;
  std::array<b2RevoluteJoint*, 4> joints_{};
  std::array<bool, 2> contact_{};
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
