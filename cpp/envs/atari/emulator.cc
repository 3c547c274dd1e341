#include "emulator.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "ale/ale_interface.hpp"
#include "ale/common/ColourPalette.hpp"
#include "ale/common/Log.hpp"
#include "ale/emucore/Console.hxx"
#include "ale/emucore/MD5.hxx"
#include "ale/emucore/TIA.hxx"
#include "ale/games/RomSettings.hpp"
#include "torchrl_pool/error.h"

namespace torchrl_pool::atari {
namespace {

// What ALE keeps to itself; an explicit instantiation may name private members. The last action, which is the
// one that sticks, is not in the states that it saves. Its copy of the screen is not needed at all.
template <auto ale::StellaEnvironment::* action, auto ale::StellaEnvironment::* strength,
          auto ale::StellaEnvironment::* screen>
struct Reach {
  friend ale::Action& StickyAction(ale::StellaEnvironment& environment) { return environment.*action; }
  friend float& StickyStrength(ale::StellaEnvironment& environment) { return environment.*strength; }
  friend ale::ALEScreen& ScreenCopy(ale::StellaEnvironment& environment) { return environment.*screen; }
};
template struct Reach<&ale::StellaEnvironment::m_player_a_action,
                      &ale::StellaEnvironment::m_paddle_a_strength, &ale::StellaEnvironment::m_screen>;
ale::Action& StickyAction(ale::StellaEnvironment& environment);
float& StickyStrength(ale::StellaEnvironment& environment);
ale::ALEScreen& ScreenCopy(ale::StellaEnvironment& environment);

// Whether the last frame is not finished, because the game forgot to: the next one goes on drawing there.
template <auto ale::stella::TIA::* unfinished>
struct ReachTia {
  friend bool IsUnfinished(const ale::stella::TIA& tia) { return tia.*unfinished; }
};
template struct ReachTia<&ale::stella::TIA::myPartialFrameFlag>;
bool IsUnfinished(const ale::stella::TIA& tia);

// The picture is drawn over the last but one: both belong to the state.
constexpr std::size_t kFrameBuffer = 160 * 300;
constexpr std::size_t kDigest = 32;  // MD5, in hexadecimal
// Bytes of a saved state besides ALE's own.
constexpr std::size_t kFixedSize = kDigest + sizeof(ale::Action) + sizeof(float) + 2 * kFrameBuffer;

// The checksum of the game, and of what stands in a state between the checksum and the pictures.
//
// ALE believes what it reads: lengths, indices into tables, clocks by which it finds its place on the screen.
// So nothing reaches it but what it has saved. This protects from damage, by accident or by hand, but not
// from somebody who computes the checksum anew: states of Atari games must come from where one would take
// code from.
std::string DigestOf(const std::vector<std::uint8_t>& state, const ale::RomSettings& game) {
  const std::string rom = game.md5();
  std::vector<std::uint8_t> text(rom.begin(), rom.end());
  text.insert(text.end(), state.begin() + kDigest, state.end() - std::ptrdiff_t{2 * kFrameBuffer});
  return ale::stella::MD5(text.data(), static_cast<std::uint32_t>(text.size()));
}

template <class T>
std::vector<int> Numbers(const std::vector<T>& values) {
  std::vector<int> numbers;
  for (const T value : values) numbers.push_back(static_cast<int>(value));
  return numbers;
}

}  // namespace

struct Emulator::Machine {
  ale::ALEInterface ale;
  // The television, of which there is only one kind.
  ale::stella::TIA& picture() {
    return static_cast<ale::stella::TIA&>(ale.theOSystem->console().mediaSource());
  }
};

Emulator::Emulator(const EmulatorSettings& settings) : settings_(settings) {
  static const bool quiet = (ale::Logger::setMode(ale::Logger::Error), true);
  (void)quiet;
  machine_ = std::make_unique<Machine>();
  auto& ale = machine_->ale;
  ale.setFloat("repeat_action_probability", static_cast<float>(settings.repeat_action_probability));
  if (settings.max_num_frames_per_episode > 0) {
    ale.setInt("max_num_frames_per_episode", settings.max_num_frames_per_episode);
  }
}

Emulator::~Emulator() = default;

void Emulator::Load(std::int32_t seed) {
  auto& ale = machine_->ale;
  is_loaded_ = false;  // ALE throws the old cartridge away first
  ale.setInt("random_seed", seed);
  ale.loadROM(settings_.rom);
  // Without rows there is nothing to copy after every frame; screen() shows the original.
  ScreenCopy(*ale.environment) = ale::ALEScreen(0, 0);
  if (settings_.mode) ale.setMode(static_cast<ale::game_mode_t>(*settings_.mode));
  if (settings_.difficulty) ale.setDifficulty(static_cast<ale::difficulty_t>(*settings_.difficulty));
  is_loaded_ = true;
}

void Emulator::LoadIfEmpty() {
  if (!is_loaded_) Load(0);
}

void Emulator::Reset() { machine_->ale.reset_game(); }

int Emulator::Act(int action, float strength) {
  return machine_->ale.act(static_cast<ale::Action>(action), strength);
}

bool Emulator::game_over() const { return machine_->ale.game_over(false); }
bool Emulator::truncated() const { return machine_->ale.game_truncated(); }
int Emulator::lives() const { return machine_->ale.lives(); }
int Emulator::frame_number() const { return machine_->ale.getFrameNumber(); }
int Emulator::episode_frame_number() const { return machine_->ale.getEpisodeFrameNumber(); }
const std::uint8_t* Emulator::ram() const { return machine_->ale.getRAM().array(); }

const std::uint8_t* Emulator::screen() const { return machine_->picture().currentFrameBuffer(); }
bool Emulator::screen_stays() const { return !IsUnfinished(machine_->picture()); }
int Emulator::height() const { return static_cast<int>(machine_->picture().height()); }
int Emulator::width() const { return static_cast<int>(machine_->picture().width()); }

Palette Emulator::palette() const {
  const auto& colours = machine_->ale.theOSystem->colourPalette();
  Palette palette{};
  for (int i = 0; i < 256; ++i) {
    const auto rgb = colours.getRGB(i);
    const auto at = static_cast<std::size_t>(i);
    palette.rgb[at] = {static_cast<std::uint8_t>(rgb >> 16), static_cast<std::uint8_t>(rgb >> 8),
                       static_cast<std::uint8_t>(rgb)};
    // ALE takes the grey of colour i from place i + 1. Behind the last place its own build has a zero.
    palette.gray[at] = i < 255 ? static_cast<std::uint8_t>(colours.getRGB(i + 1)) : 0;
  }
  return palette;
}

std::vector<int> Emulator::legal_actions() const { return Numbers(machine_->ale.getLegalActionSet()); }
std::vector<int> Emulator::minimal_actions() const { return Numbers(machine_->ale.getMinimalActionSet()); }
std::vector<int> Emulator::modes() const { return Numbers(machine_->ale.getAvailableModes()); }
std::vector<int> Emulator::difficulties() const { return Numbers(machine_->ale.getAvailableDifficulties()); }

// A state is the checksum of what ALE saves and of the sticky action, then these, then two pictures, in which
// any byte will do.
std::vector<std::uint8_t> Emulator::Save() {
  LoadIfEmpty();
  auto& ale = machine_->ale;
  const std::string system = ale.cloneState(true).serialize();
  std::vector<std::uint8_t> bytes(kFixedSize + system.size());
  std::uint8_t* to = bytes.data() + kDigest;
  const auto append = [&to](const void* data, std::size_t size) {
    std::memcpy(to, data, size);
    to += size;
  };
  append(&StickyAction(*ale.environment), sizeof(ale::Action));
  append(&StickyStrength(*ale.environment), sizeof(float));
  append(system.data(), system.size());
  const auto& source = machine_->picture();
  append(source.currentFrameBuffer(), kFrameBuffer);
  append(source.previousFrameBuffer(), kFrameBuffer);
  const std::string digest = DigestOf(bytes, *ale.romSettings);
  std::copy(digest.begin(), digest.end(), bytes.begin());
  return bytes;
}

void Emulator::Restore(const std::vector<std::uint8_t>& bytes) {
  LoadIfEmpty();
  auto& ale = machine_->ale;
  if (bytes.size() < kFixedSize) throw InvalidArgument("the saved state is too short for an Atari game");
  const std::string digest = DigestOf(bytes, *ale.romSettings);
  if (!std::equal(digest.begin(), digest.end(), bytes.begin())) {
    throw InvalidArgument("the saved state is damaged, or of another game: its checksum is wrong");
  }
  const std::uint8_t* from = bytes.data() + kDigest;
  const auto take = [&from](void* to, std::size_t size) {
    std::memcpy(to, from, size);
    from += size;
  };
  ale::Action action;
  float strength;
  take(&action, sizeof action);
  take(&strength, sizeof strength);
  std::string system(bytes.size() - kFixedSize, '\0');
  take(system.data(), system.size());
  ale.restoreState(ale::ALEState(system));
  StickyAction(*ale.environment) = action;
  StickyStrength(*ale.environment) = strength;
  const auto& source = machine_->picture();
  take(source.currentFrameBuffer(), kFrameBuffer);
  take(source.previousFrameBuffer(), kFrameBuffer);
}

}  // namespace torchrl_pool::atari
