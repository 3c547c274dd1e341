// LunarLander: land between two flags, with a main engine and two at the sides.
// Oleg Klimov's; reference: gymnasium/envs/box2d/lunar_lander.py. What is double here is a Python float
// there.
#include "lunar_lander.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <optional>

#include "episode.h"
#include "physics.h"

namespace torchrl_pool::box2d {
namespace {

constexpr double kMainPower = 13.0, kSidePower = 0.6;
constexpr double kScale = Lunar::kScale;

// The default of two registered tasks.
template <bool continuous_actions>
class LunarLander : private b2ContactListener {
 public:
  struct Options {
    bool continuous = continuous_actions;
    double gravity = -10, wind_power = 15, turbulence_power = 1.5;
    bool enable_wind = false;

    template <class Visitor>
    void Visit(Visitor& visit) {
      visit("continuous", continuous, "engines that can be throttled, instead of four actions");
      visit("gravity", gravity, "between -12 and 0, both excluded");
      visit("enable_wind", enable_wind, "wind and turbulence while no leg touches the ground");
      visit("wind_power", wind_power, "the strongest wind; 0 to 20 is recommended");
      visit("turbulence_power", turbulence_power, "the strongest turbulence; 0 to 2 is recommended");
    }
    void Open() const {
      if (!(gravity > -12 && gravity < 0)) {
        throw InvalidArgument("gravity must lie between -12 and 0, both excluded, not be " +
                              std::to_string(gravity));
      }
    }
  };

  static Specs MakeSpecs(const Options& options) {
    const double turn = static_cast<float>(2 * std::numbers::pi);
    const std::vector<double> high = {2.5, 2.5, 10, 10, turn, 10, 1, 1},
                              low = {-2.5, -2.5, -10, -10, -turn, -10, -0., -0.};
    return {
        Observation("observation", Box<float>({8}, low, high),
                    "x from the pad, y from the pad, velocity x, velocity y, angle (rad), angular velocity, "
                    "left leg touches the ground, right leg touches the ground"),
        options.continuous
            ? Action("action", Box<float>({2}, -1, 1),
                     "main engine (off up to 0, then 50% to 100%), "
                     "side engines (left below -0.5, right above 0.5)")
            : Action("action", Discrete(4), "nothing, left engine, main engine, right engine")};
  }

  explicit LunarLander(const Options& options) : options_(options) {}

  void Seed(Entropy entropy) { rng_ = Rng(entropy); }

  void Reset(Row& row) {
    episode_.Begin(rng_);
    has_particles_ = false;
    Begin(row.Out<float>());
  }

  Outcome Step(Row& row) {
    Command action{};
    if (options_.continuous) {
      std::copy_n(row.Action<float>(), 2, action.begin());
    } else {
      action[0] = static_cast<float>(row.Action<std::int64_t>()[0]);
    }
    episode_.Add(action);
    return Advance(action, row.Out<float>());
  }

  static ImageSize RenderSize(const Options&) { return kLunarPicture; }

  // Particles are decoration that nothing else feels: they exist from an episode's first picture on. They
  // live for a few steps, so one that cannot be played again soon has all of them, too.
  void Render(std::uint8_t* rgb) {
    if (!has_particles_) {
      has_particles_ = true;
      if (!episode_.is_too_long) Replay();
    }
    DrawLunar(rgb, scene_);
  }

  template <class Visitor>
  void VisitState(Visitor& visit) {
    visit(rng_);
    episode_.VisitState(visit);
    if constexpr (Visitor::kReading) {
      has_particles_ = false;
      Replay();
    }
  }

 private:
  using Command = std::array<float, 2>;  // the two engines, or the number of the choice and nothing

  void Replay() {
    const Rng rng = rng_;
    rng_ = episode_.rng;
    float observation[8];
    Begin(observation);
    for (const Command& action : episode_.actions) Advance(action, observation);
    rng_ = rng;
  }

  void Begin(float* observation) {
    world_.emplace(Vector(0, options_.gravity));
    world_->SetContactListener(this);
    is_over_ = false;
    shaping_.reset();
    contact_ = {};
    scene_.legs = {};
    scene_.lander = nullptr;
    scene_.particles.clear();
    AddGround();
    AddLander();
    for (const int side : {-1, 1}) AddLeg(side);
    Advance({}, observation);
  }

  void AddGround() {
    constexpr int kChunks = Lunar::kChunks;
    std::array<double, kChunks + 1> height;
    for (double& h : height) h = rng_.Uniform(0, Lunar::kHeight / 2);
    for (int i = kChunks / 2 - 2; i <= kChunks / 2 + 2; ++i) height[i] = Lunar::kPadHeight;
    for (int i = 0; i < kChunks; ++i) {
      // Python's height[-1] is the last of them.
      scene_.ground[i] = 0.33 * (height[i == 0 ? kChunks : i - 1] + height[i] + height[i + 1]);
    }
    b2EdgeShape edge;
    edge.Set(Vector(0, 0), Vector(Lunar::kWidth, 0));
    b2FixtureDef fixture;
    fixture.shape = &edge;
    b2Body* moon = AddBody(&*world_, b2_staticBody, Vector(0, 0), 0, fixture);
    fixture.friction = F(0.1);
    for (int i = 0; i + 1 < kChunks; ++i) {
      edge.Set(Vector(Lunar::ChunkX(i), scene_.ground[i]),
               Vector(Lunar::ChunkX(i + 1), scene_.ground[i + 1]));
      moon->CreateFixture(&fixture);
    }
  }

  void AddLander() {
    constexpr int kCorners[6][2] = {{-14, 17}, {-17, 0}, {-17, -10}, {17, -10}, {17, 0}, {14, 17}};
    b2Vec2 corners[6];
    for (int i = 0; i < 6; ++i) corners[i] = Vector(kCorners[i][0] / kScale, kCorners[i][1] / kScale);
    b2PolygonShape shape;
    shape.Set(corners, 6);
    b2FixtureDef fixture = Part(shape, 5, 0x10);
    fixture.friction = F(0.1);
    scene_.lander = AddBody(&*world_, b2_dynamicBody, Vector(kStartX, kStartY), 0, fixture);
    const double x = rng_.Uniform(-1000, 1000), y = rng_.Uniform(-1000, 1000);
    scene_.lander->ApplyForceToCenter(Vector(x, y), true);
    if (options_.enable_wind) {
      wind_ = rng_.Integers(-9999, 9999);
      torque_ = rng_.Integers(-9999, 9999);
    }
  }

  void AddLeg(int side) {
    b2PolygonShape shape;
    shape.SetAsBox(F(2 / kScale), F(8 / kScale));
    b2Body* leg = AddBody(&*world_, b2_dynamicBody, Vector(kStartX - side * 20 / kScale, kStartY),
                          F(side * 0.05), Part(shape, 1, 0x20));
    const double lower = side == -1 ? 0.9 - 0.5 : -0.9, upper = side == -1 ? 0.9 : -0.9 + 0.5;
    AddJoint(&*world_, scene_.lander, leg, Vector(0, 0), Vector(side * 20 / kScale, 18 / kScale),
             {.torque = 40, .speed = 0.3 * side, .lower = lower, .upper = upper});
    scene_.legs[side == -1 ? 0 : 1] = leg;
  }

  Outcome Advance(const Command& action, float* observation) {
    if (options_.enable_wind && !(contact_[0] || contact_[1])) Blow();
    const double angle = scene_.lander->GetAngle();
    const Way way{std::sin(angle), std::cos(angle)};
    double dispersion[2];
    for (double& d : dispersion) d = rng_.Uniform(-1, 1) / kScale;
    const double main = MainPower(action);
    if (main > 0) FireMain(way, dispersion, main);
    const auto [side, direction] = SidePower(action);
    if (direction != 0) FireSide(way, dispersion, side, direction);
    box2d::Advance(&*world_);
    if (has_particles_) AgeParticles();
    return Judge(main, side, observation);
  }

  // Never periodic.
  static double Gust(std::int64_t index) {
    const auto i = static_cast<double>(index);
    return std::tanh(std::sin(0.02 * i) + std::sin(std::numbers::pi * 0.01 * i));
  }
  void Blow() {
    scene_.lander->ApplyForceToCenter(Vector(Gust(wind_++) * options_.wind_power, 0), true);
    scene_.lander->ApplyTorque(F(Gust(torque_++) * options_.turbulence_power), true);
  }

  double MainPower(const Command& action) const {
    if (!options_.continuous) return action[0] == 2 ? 1 : 0;
    const double main = std::clamp<double>(action[0], -1, 1);
    return main > 0 ? (main + 1.0) * 0.5 : 0;
  }
  struct Side {
    double power, direction;
  };
  Side SidePower(const Command& action) const {
    if (!options_.continuous) {
      return action[0] == 1 || action[0] == 3 ? Side{1, action[0] - 2.0} : Side{0, 0};
    }
    const double side = std::clamp<double>(action[1], -1, 1);
    return std::abs(side) > 0.5 ? Side{std::abs(side), side > 0 ? 1.0 : -1.0} : Side{0, 0};
  }

  struct Way {  // up, as the lander sees it; to its side is (-y, x)
    double x, y;
  };
  void FireMain(Way tip, const double* dispersion, double power) {
    const double x = tip.x * (4 / kScale + 2 * dispersion[0]) + -tip.y * dispersion[1];
    const double y = -tip.y * (4 / kScale + 2 * dispersion[0]) - tip.x * dispersion[1];
    Push(x, y, Vector(X() + x, Y() + y), kMainPower, power, 3.5);
  }
  void FireSide(Way tip, const double* dispersion, double power, double direction) {
    const double away = 3 * dispersion[1] + direction * 12 / kScale;
    const double x = tip.x * dispersion[0] + -tip.y * away;
    const double y = -tip.y * dispersion[0] - tip.x * away;
    Push(x, y, Vector(X() + x - tip.x * 17 / kScale, Y() + y + tip.y * 14 / kScale), kSidePower, power, 0.7);
  }
  void Push(double x, double y, b2Vec2 at, double engine, double power, double density) {
    if (has_particles_) {
      AddParticle(at, density, power)
          ->ApplyLinearImpulse(Vector(x * engine * power, y * engine * power), at, true);
    }
    scene_.lander->ApplyLinearImpulse(Vector(-x * engine * power, -y * engine * power), at, true);
  }

  b2Body* AddParticle(b2Vec2 at, double density, double lifetime) {
    b2CircleShape shape;
    shape.m_radius = F(2 / kScale);
    b2FixtureDef fixture = Part(shape, density, 0x100);
    fixture.friction = F(0.1);
    fixture.restitution = F(0.3);
    b2Body* body = AddBody(&*world_, b2_dynamicBody, at, 0, fixture);
    scene_.particles.push_back({body, lifetime});
    return body;
  }
  // In the reference they age with each picture: the same where every state is shown once.
  void AgeParticles() {
    auto& particles = scene_.particles;
    for (auto& particle : particles) particle.lifetime -= 0.15;
    auto alive = particles.begin();
    for (; alive != particles.end() && alive->lifetime < 0; ++alive) world_->DestroyBody(alive->body);
    particles.erase(particles.begin(), alive);
  }

  Outcome Judge(double main, double side, float* observation) {
    const b2Vec2 velocity = scene_.lander->GetLinearVelocity();
    const double state[8] = {(X() - Lunar::kWidth / 2) / (Lunar::kWidth / 2),
                             (Y() - (Lunar::kPadHeight + 18 / kScale)) / (Lunar::kHeight / 2),
                             velocity.x * (Lunar::kWidth / 2) / 50,
                             velocity.y * (Lunar::kHeight / 2) / 50,
                             scene_.lander->GetAngle(),
                             20.0 * scene_.lander->GetAngularVelocity() / 50,
                             contact_[0] ? 1.0 : 0.0,
                             contact_[1] ? 1.0 : 0.0};
    std::transform(state, state + 8, observation, F);
    const double shaping = -100 * std::sqrt(state[0] * state[0] + state[1] * state[1]) -
                           100 * std::sqrt(state[2] * state[2] + state[3] * state[3]) -
                           100 * std::abs(state[4]) + 10 * state[6] + 10 * state[7];
    double reward = shaping_ ? shaping - *shaping_ : 0;
    shaping_ = shaping;
    reward -= main * 0.30;
    reward -= side * 0.03;
    if (!scene_.lander->IsAwake()) return {.reward = 100, .terminated = true};
    if (is_over_ || std::abs(state[0]) >= 1.0) return {.reward = -100, .terminated = true};
    return {.reward = reward};
  }

  double X() const { return scene_.lander->GetPosition().x; }
  double Y() const { return scene_.lander->GetPosition().y; }

  void BeginContact(b2Contact* contact) override {
    is_over_ = is_over_ || Touches(contact, scene_.lander);
    SetContact(contact, true);
  }
  // A leg may still touch another part of the ground; the reference forgets that too.
  void EndContact(b2Contact* contact) override { SetContact(contact, false); }
  void SetContact(b2Contact* contact, bool value) {
    for (int i = 0; i < 2; ++i) {
      if (Touches(contact, scene_.legs[i])) contact_[i] = value;
    }
  }

  static constexpr double kStartX = Lunar::kWidth / 2, kStartY = Lunar::kHeight;

  const Options& options_;
  Rng rng_;
  Episode<Command> episode_;
  std::optional<b2World> world_;  // a new one for each episode
  Lunar scene_;
  std::array<bool, 2> contact_{};
  bool is_over_ = false, has_particles_ = false;
  std::optional<double> shaping_;
  std::int64_t wind_ = 0, torque_ = 0;
};

const bool registered =
    Register<LunarLander<false>>({.id = "LunarLander-v3",
                                  .description = "land between two flags",
                                  .max_episode_steps = 1000,
                                  .reward_threshold = 200}) &&
    Register<LunarLander<true>>({.id = "LunarLanderContinuous-v3",
                                 .description = "land between two flags with engines that can be throttled",
                                 .max_episode_steps = 1000,
                                 .reward_threshold = 200});

}  // namespace
}  // namespace torchrl_pool::box2d
