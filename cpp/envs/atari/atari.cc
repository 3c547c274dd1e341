#include "atari.h"

#include <algorithm>
#include <cstring>
#include <numbers>
#include <random>

#include "numpy_math.h"

namespace torchrl_pool::atari {
namespace {

// The order of Atari::MakeSpecs, as far as they are not actions.
enum Output { kObservation, kLives, kLifeLost, kRawReward, kFrameNumber, kEpisodeFrameNumber, kRam };

Spec MakeObservation(const Options& options) {
  const std::int64_t height = options.screen.height, width = options.screen.width;
  if (options.obs_type == "ram") {
    return Observation("observation", Box<std::uint8_t>({Emulator::kRamSize}), "the console's RAM");
  }
  if (!options.is_preprocessed()) {
    std::vector<std::int64_t> shape = {height, width};
    if (options.obs_type == "rgb") shape.push_back(3);
    return Observation("observation", Box<std::uint8_t>(shape), "the screen");
  }
  std::vector<std::int64_t> shape = {options.stack_size, options.picture.height, options.picture.width};
  if (!options.grayscale_obs) shape.push_back(3);
  return Observation(
      "observation", options.scale_obs ? Box<float>(shape, 0, 1) : Box<std::uint8_t>(shape),
      "the last pictures, the newest last; each the maximum of a step's last two frames, made smaller");
}

// As ALE numbers them.
constexpr const char* kActionNames[18] = {
    "NOOP",     "FIRE",     "UP",          "RIGHT",      "LEFT",          "DOWN",
    "UPRIGHT",  "UPLEFT",   "DOWNRIGHT",   "DOWNLEFT",   "UPFIRE",        "RIGHTFIRE",
    "LEFTFIRE", "DOWNFIRE", "UPRIGHTFIRE", "UPLEFTFIRE", "DOWNRIGHTFIRE", "DOWNLEFTFIRE"};

Spec MakeAction(const Options& options) {
  if (!options.continuous) {
    std::string names;
    for (const int action : options.actions) {
      names += (names.empty() ? "" : ", ") + std::string(kActionNames[action]);
    }
    return Action("action", Discrete(static_cast<std::int64_t>(options.actions.size())), names);
  }
  return Action(
      "action", Box<float>({3}, {0, -std::numbers::pi, 0}, {1, std::numbers::pi, 1}),
      "radius of the joystick, angle of the joystick (rad), button (pressed from the threshold on)");
}

// The joystick's position as ALE's action, by [left, centre, right], [down, centre, up], [released, pressed].
constexpr int kJoystick[3][3][2] = {
    {{9, 17}, {4, 12}, {7, 15}}, {{5, 13}, {0, 1}, {2, 10}}, {{8, 16}, {3, 11}, {6, 14}}};

// std::mt19937, whose words NumPy's legacy stream has.
struct Mt19937 {
  using result_type = std::mt19937::result_type;
  static constexpr result_type min() { return std::mt19937::min(); }
  static constexpr result_type max() { return std::mt19937::max(); }
  result_type operator()() { return stream.NextUint32(); }

  LegacyRng& stream;
};

template <class To, class From>
void WriteInfo(const Row& row, Output output, From value) {
  if (To* to = row.Out<To>(output)) *to = static_cast<To>(value);
}

}  // namespace

Specs Atari::MakeSpecs(const Options& options) {
  return {
      MakeObservation(options),
      Info("lives", Box<std::int64_t>({1}), "lives left"),
      Info("life_lost", Box<bool>({1}), "whether the step cost a life, whatever that means for the episode"),
      Info("raw_reward", Box<float>({1}), "the step's reward before any clipping"),
      Info("frame_number", Box<std::int64_t>({1}), "frames since the env was seeded"),
      Info("episode_frame_number", Box<std::int64_t>({1}), "frames since the episode began"),
      Info("ram", Box<std::uint8_t>({Emulator::kRamSize}), "the console's RAM"),
      MakeAction(options)};
}

Atari::Atari(const Options& options) : options_(options), emulator_(options.emulator) {
  if (options.is_preprocessed()) preprocessor_.emplace(options);
}

void Atari::Seed(Entropy entropy) {
  std::uint32_t words[2];
  if (options_.is_ale_vector()) {
    // Seeds of AtariVectorEnv are ints that are not negative.
    seed_ = entropy.words[0] & 0x7fffffffu;
  } else {
    SeedSequence(entropy).Generate(words, 2);
    rng_ = Rng(Entropy{&words[0], 1});
    seed_ = words[1];
  }
  is_seeded_ = true;
}

// ---- the beginning of an episode ----------------------------------------------------------------

void Atari::Reset(Row& row) {
  if (options_.is_ale_vector()) {
    BeginLikeAleVector();
  } else {
    BeginLikeGymnasium();
  }
  is_seeded_ = false;
  elapsed_frames_ = 0;
  lives_ = emulator_.lives();
  if (preprocessor_) preprocessor_->Begin();
  Observe(row, {});
}

void Atari::StartGame(bool seeded) {
  if (seeded) emulator_.Load(static_cast<std::int32_t>(seed_));
  emulator_.Reset();
}

void Atari::BeginLikeGymnasium() {
  if (!preprocessor_) return StartGame(is_seeded_);
  StartWithNoops();
  if (options_.fire_reset && options_.has_fire) PressFire();
}

// The reset of AtariPreprocessing.
void Atari::StartWithNoops() {
  const Rng seeded_rng = rng_;
  StartGame(is_seeded_);
  std::int64_t noops = options_.noop_max > 0 ? rng_.Integers(1, options_.noop_max + 1) : 0;
  for (; noops > 0; --noops) {
    emulator_.Act(kNoop, 1.0f);
    if (!emulator_.game_over() && !emulator_.truncated()) continue;
    StartGame(is_seeded_);
    if (is_seeded_) rng_ = seeded_rng;  // it hands its own seed on once more
  }
  is_seeded_ = false;
  lives_ = emulator_.lives();
  preprocessor_->frame().Start(emulator_.screen());
}

// As the FireResetEnv of Stable-Baselines3 around AtariPreprocessing: a step of FIRE, and one of the action
// that comes after it, for games that wait for either.
void Atari::PressFire() {
  const std::size_t last = options_.actions.size() - 1;
  for (const int action : {static_cast<int>(kFire), options_.actions[std::min<std::size_t>(2, last)]}) {
    if (Play({action, 1.0f}).over()) StartWithNoops();
  }
}

void Atari::BeginLikeAleVector() {
  if (is_seeded_) vector_rng_ = LegacyRng(Entropy{&seed_, 1});
  StartGame(is_seeded_);
  const bool fire = options_.fire_reset && options_.has_fire;
  if (fire) emulator_.Act(kFire, 1.0f);
  std::uniform_int_distribution<> distribution(
      0, static_cast<int>(std::max<std::int64_t>(options_.noop_max, 1) - 1));
  Mt19937 words{vector_rng_};
  for (int noops = distribution(words) - fire; noops > 0; --noops) {
    emulator_.Act(kNoop, 1.0f);
    if (emulator_.game_over()) emulator_.Reset();
  }
  preprocessor_->frame().Start(emulator_.screen());
}

// ---- a step -------------------------------------------------------------------------------------

Outcome Atari::Step(Row& row) {
  const Frames frames = Play(Decode(row));
  if (preprocessor_) preprocessor_->Push();
  Observe(row, frames);
  const int reward = options_.reward_clip ? std::clamp(frames.reward, -1, 1) : frames.reward;
  return {
      .reward = static_cast<double>(reward), .terminated = frames.terminated, .truncated = frames.truncated};
}

Atari::Frames Atari::Play(Push push) {
  const int lives_before = lives_;
  int reward = 0;
  bool life_lost = false;
  Frames now;
  std::int64_t left = options_.frame_skip;
  PooledFrame* picture = preprocessor_ ? &preprocessor_->frame() : nullptr;
  if (picture) picture->MarkAll(false);
  while (left-- > 0) {
    now = PlayFrame(push);
    reward += now.reward;
    life_lost = life_lost || emulator_.lives() < lives_before;
    if (!picture) continue;  // AtariEnv itself does not look before the last frame
    if (now.over()) {
      if (left == 0 && options_.frame_skip > 1) picture->PoolEarlier();
      break;
    }
    if (left == 1) picture->SetEarlier(emulator_.screen(), emulator_.screen_stays());
    if (left == 0)
      options_.frame_skip > 1 ? picture->SetLast(emulator_.screen()) : picture->SetOnly(emulator_.screen());
  }
  lives_ = emulator_.lives();
  now.reward = reward;
  now.life_lost = life_lost;
  return now;
}

Atari::Frames Atari::PlayFrame(Push push) {
  Frames frame;
  frame.reward = emulator_.Act(push.action, push.strength);
  frame.terminated = emulator_.game_over();
  const int lives = emulator_.lives();
  const bool ends_on_life_loss = options_.terminal_on_life_loss && lives < lives_;
  if (options_.is_ale_vector()) {
    ++elapsed_frames_;
    frame.terminated = frame.terminated || (ends_on_life_loss && lives > 0);
    const auto limit = options_.max_num_frames_per_episode;
    frame.truncated = limit && elapsed_frames_ >= *limit && !frame.terminated;
  } else {
    frame.terminated = frame.terminated || ends_on_life_loss;
    frame.truncated = emulator_.truncated();
    if (options_.terminal_on_life_loss) lives_ = lives;
  }
  return frame;
}

Atari::Push Atari::Decode(const Row& row) const {
  if (options_.continuous) return DecodeJoystick(row.Action<float>());
  return {options_.actions[static_cast<std::size_t>(*row.Action<std::int64_t>())], 1.0f};
}

Atari::Push Atari::DecodeJoystick(const float* polar) const {
  const auto threshold = static_cast<float>(options_.continuous_action_threshold);
  const auto direction = [threshold](float x) { return 1 - (x < -threshold) + (x > threshold); };
  const int across = direction(polar[0] * CosFloat32(polar[1]));
  const int along = direction(polar[0] * SinFloat32(polar[1]));
  return {kJoystick[across][along][polar[2] > threshold], polar[0]};
}

// ---- outputs ------------------------------------------------------------------------------------

void Atari::Observe(const Row& row, const Frames& frames) const {
  const auto pixels = static_cast<std::size_t>(options_.screen.height * options_.screen.width);
  if (preprocessor_) {
    preprocessor_->Write(row);
  } else if (options_.obs_type == "ram") {
    std::memcpy(row.Out<std::uint8_t>(), emulator_.ram(), Emulator::kRamSize);
  } else if (options_.obs_type == "rgb") {
    Render(row.Out<std::uint8_t>());
  } else {
    const std::uint8_t* screen = emulator_.screen();
    std::uint8_t* out = row.Out<std::uint8_t>();
    for (std::size_t i = 0; i < pixels; ++i) out[i] = options_.palette.gray[screen[i]];
  }
  WriteInfo<std::int64_t>(row, kLives, emulator_.lives());
  WriteInfo<bool>(row, kLifeLost, frames.life_lost);
  WriteInfo<float>(row, kRawReward, frames.reward);
  WriteInfo<std::int64_t>(row, kFrameNumber, emulator_.frame_number());
  WriteInfo<std::int64_t>(row, kEpisodeFrameNumber, emulator_.episode_frame_number());
  if (auto* ram = row.Out<std::uint8_t>(kRam)) std::memcpy(ram, emulator_.ram(), Emulator::kRamSize);
}

void Atari::Render(std::uint8_t* rgb) const {
  const std::uint8_t* screen = emulator_.screen();
  const int pixels = options_.screen.height * options_.screen.width;
  for (int i = 0; i < pixels; ++i) std::memcpy(rgb + 3 * i, options_.palette.rgb[screen[i]].data(), 3);
}

}  // namespace torchrl_pool::atari
