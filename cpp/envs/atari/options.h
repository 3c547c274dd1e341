// The options of the Atari tasks, and what all envs with the same options share.
#ifndef TORCHRL_POOL_ENVS_ATARI_OPTIONS_H_
#define TORCHRL_POOL_ENVS_ATARI_OPTIONS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "area_resize.h"
#include "emulator.h"
#include "torchrl_pool/env.h"

namespace torchrl_pool::atari {

// Names and defaults are those of gymnasium.make(id), AtariPreprocessing and FrameStackObservation(4).
struct Options {
  std::int64_t noop_max = 30;
  std::int64_t frame_skip = 4;
  std::vector<std::int64_t> screen_size = {84};
  bool terminal_on_life_loss = false;
  bool grayscale_obs = true;
  bool scale_obs = false;
  std::int64_t stack_size = 4;
  double repeat_action_probability = 0.25;
  bool full_action_space = false;
  bool continuous = false;
  double continuous_action_threshold = 0.5;
  std::optional<std::int64_t> mode;
  std::optional<std::int64_t> difficulty;
  std::optional<std::int64_t> max_num_frames_per_episode = 108'000;
  bool reward_clip = false;
  bool fire_reset = false;
  std::string obs_type = "preprocessed";
  std::string dialect = "gymnasium";

  template <class Visitor>
  void Visit(Visitor& visit) {
    constexpr double kIntMax = std::numeric_limits<std::int32_t>::max();
    visit("noop_max", noop_max, "an episode begins with up to so many no-ops",
          {.minimum = 0, .maximum = kIntMax - 1});
    visit("frame_skip", frame_skip, "frames for which an action is repeated", {.minimum = 1, .maximum = 1e6});
    visit("screen_size", screen_size, "side of the square picture, or its width and height",
          {.minimum = 1, .maximum = kIntMax});
    visit("terminal_on_life_loss", terminal_on_life_loss, "the loss of a life ends the episode");
    visit("grayscale_obs", grayscale_obs, "grey pictures instead of colours as a last dimension");
    visit("scale_obs", scale_obs, "float32 in [0, 1] instead of uint8");
    visit("stack_size", stack_size, "pictures per observation, the newest last",
          {.minimum = 1, .maximum = 1024});
    visit("repeat_action_probability", repeat_action_probability,
          "in each frame, that of the last action sticking", {.minimum = 0, .maximum = 1});
    visit("full_action_space", full_action_space, "all 18 actions, also those without effect in this game");
    visit("continuous", continuous, "the joystick as radius, angle and fire button");
    visit("continuous_action_threshold", continuous_action_threshold,
          "from where on the joystick counts as pushed");
    visit("mode", mode, "the game's variant; None: its own default", {.minimum = 0, .maximum = kIntMax});
    visit("difficulty", difficulty, "position of the difficulty switches; None: 0",
          {.minimum = 0, .maximum = kIntMax});
    visit("max_num_frames_per_episode", max_num_frames_per_episode,
          "frames after which an episode is truncated; None: no limit", {.minimum = 1, .maximum = kIntMax});
    visit("reward_clip", reward_clip, "rewards clipped to [-1, 1]");
    visit("fire_reset", fire_reset, "presses FIRE at the start of an episode, where the game has it");
    visit("obs_type", obs_type, "preprocessed pictures, or one frame of the screen or the RAM as they are",
          {.choices = {"preprocessed", "rgb", "grayscale", "ram"}});
    visit("dialect", dialect,
          "whose random streams and rules of reset: Gymnasium's wrappers', or ale-py's AtariVectorEnv's",
          {.choices = {"gymnasium", "ale_vector"}});
  }

  // Checks what only the game can tell, and makes the shared parts below. Throws InvalidArgument.
  void Open(const std::string& task_id);

  bool is_ale_vector() const { return dialect == "ale_vector"; }
  bool is_preprocessed() const { return obs_type == "preprocessed"; }
  int channels() const { return grayscale_obs ? 1 : 3; }

  // Shared by all envs, set by Open.
  EmulatorSettings emulator;
  std::vector<int> actions;  // ALE's number of each action of the env
  bool has_fire = false;
  Palette palette{};
  AreaResize::Size screen{}, picture{};
  AreaResize resize;

 private:
  void CheckCombination() const;
};

}  // namespace torchrl_pool::atari

#endif  // TORCHRL_POOL_ENVS_ATARI_OPTIONS_H_
