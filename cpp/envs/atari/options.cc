#include "options.h"

#include <algorithm>

#include "games.h"
#include "rom.h"

namespace torchrl_pool::atari {
namespace {

void CheckOneOf(const char* name, const std::optional<std::int64_t>& value, const std::vector<int>& known) {
  if (!value || std::find(known.begin(), known.end(), *value) != known.end()) return;
  std::string list;
  for (const int number : known) list += (list.empty() ? "" : ", ") + std::to_string(number);
  throw InvalidArgument("option '" + std::string(name) + "': this game has " + list + ", got " +
                        std::to_string(*value));
}

std::optional<int> ToInt(const std::optional<std::int64_t>& value) {
  if (!value) return std::nullopt;
  return static_cast<int>(*value);
}

}  // namespace

void Options::Open(const std::string& task_id) {
  if (screen_size.size() != 1 && screen_size.size() != 2) {
    throw InvalidArgument("option 'screen_size': expected one number, or width and height, got " +
                          std::to_string(screen_size.size()) + " numbers");
  }
  CheckCombination();
  emulator.rom = FindRom(GameOf(task_id));
  emulator.repeat_action_probability = repeat_action_probability;
  // ale_vector counts the frames itself, without those of the reset.
  emulator.max_num_frames_per_episode =
      is_ale_vector() ? 0 : static_cast<int>(max_num_frames_per_episode.value_or(0));

  Emulator probe(emulator);
  probe.Load(0);
  CheckOneOf("mode", mode, probe.modes());
  CheckOneOf("difficulty", difficulty, probe.difficulties());
  emulator.mode = ToInt(mode);
  emulator.difficulty = ToInt(difficulty);
  actions = full_action_space || continuous ? probe.legal_actions() : probe.minimal_actions();
  has_fire = std::find(actions.begin(), actions.end(), static_cast<int>(kFire)) != actions.end();

  palette = probe.palette();
  screen = {probe.height(), probe.width()};
  picture = {static_cast<int>(screen_size.back()), static_cast<int>(screen_size.front())};
  if (is_preprocessed()) {
    if (picture.height > screen.height || picture.width > screen.width) {
      throw InvalidArgument("option 'screen_size': the screen of this game is " +
                            std::to_string(screen.width) + " wide and " + std::to_string(screen.height) +
                            " high, and pictures are only made smaller; got " +
                            std::to_string(picture.width) + " x " + std::to_string(picture.height));
    }
    resize = AreaResize(screen, picture, channels());
  }
}

void Options::CheckCombination() const {
  if (is_preprocessed()) return;
  const Options defaults;
  const auto check = [this](const char* name, bool is_default) {
    if (is_default) return;
    throw InvalidArgument(std::string("option '") + name +
                          "' belongs to preprocessed observations, and obs_type is '" + obs_type + "'");
  };
  check("noop_max", noop_max == defaults.noop_max);
  check("screen_size", screen_size == defaults.screen_size);
  check("terminal_on_life_loss", terminal_on_life_loss == defaults.terminal_on_life_loss);
  check("grayscale_obs", grayscale_obs == defaults.grayscale_obs);
  check("scale_obs", scale_obs == defaults.scale_obs);
  check("stack_size", stack_size == defaults.stack_size);
  check("fire_reset", fire_reset == defaults.fire_reset);
  check("dialect", dialect == defaults.dialect);
}

}  // namespace torchrl_pool::atari
