// One Atari 2600 with its cartridge: ALE, as far as the envs use it.
#ifndef TORCHRL_POOL_ENVS_ATARI_EMULATOR_H_
#define TORCHRL_POOL_ENVS_ATARI_EMULATOR_H_

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace torchrl_pool::atari {

// ALE's numbers of the actions that are named here; the joystick has 18.
enum : int { kNoop = 0, kFire = 1 };

// What is set before the cartridge is inserted, or right after.
struct EmulatorSettings {
  std::string rom;  // path, checked by FindRom
  double repeat_action_probability = 0;
  int max_num_frames_per_episode = 0;  // 0: no limit
  std::optional<int> mode;             // unset: the game's own
  std::optional<int> difficulty;
};

// What a byte of the screen looks like.
struct Palette {
  std::array<std::uint8_t, 256> gray;
  std::array<std::array<std::uint8_t, 3>, 256> rgb;
};

class Emulator {
 public:
  // An empty console. The settings must outlive it.
  explicit Emulator(const EmulatorSettings& settings);
  ~Emulator();

  // Switches off, inserts the cartridge and switches on; comes before everything below. The seed decides
  // which actions stick; -1 is the time of day.
  void Load(std::int32_t seed);

  // Starts a new game. The stream of sticky actions goes on.
  void Reset();

  // Emulates one frame and returns its reward. strength: how far a paddle turns, 1 for whole actions. Once
  // the game is over or cut off, nothing moves until the next reset.
  int Act(int action, float strength);

  bool game_over() const;
  bool truncated() const;  // by max_num_frames_per_episode
  int lives() const;
  int frame_number() const;  // since Load
  int episode_frame_number() const;
  const std::uint8_t* ram() const;  // [kRamSize]
  static constexpr int kRamSize = 128;

  // One byte a pixel, row by row, until the next call. Where screen_stays, it is still there, unchanged,
  // after one more frame: the console draws into two buffers in turn.
  const std::uint8_t* screen() const;
  bool screen_stays() const;
  int height() const;
  int width() const;

  // What the cartridge knows.
  Palette palette() const;
  std::vector<int> legal_actions() const;
  std::vector<int> minimal_actions() const;
  std::vector<int> modes() const;
  std::vector<int> difficulties() const;

  // Everything that decides what happens next, and the screen. Both may come before Load.
  std::vector<std::uint8_t> Save();
  void Restore(const std::vector<std::uint8_t>& bytes);

 private:
  struct Machine;
  void LoadIfEmpty();
  const EmulatorSettings& settings_;
  std::unique_ptr<Machine> machine_;
  bool is_loaded_ = false;
};

}  // namespace torchrl_pool::atari

#endif  // TORCHRL_POOL_ENVS_ATARI_EMULATOR_H_
