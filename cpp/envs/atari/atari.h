// An Atari 2600 game as an env. Sources: Bellemare et al. (2013) for the games, Machado et al. (2018) for the
// protocol. References: ale_py/env.py with gymnasium's AtariPreprocessing and FrameStackObservation, and
// ale_py/vector_env.py.
#ifndef TORCHRL_POOL_ENVS_ATARI_ATARI_H_
#define TORCHRL_POOL_ENVS_ATARI_ATARI_H_

#include <cstdint>
#include <optional>

#include "emulator.h"
#include "options.h"
#include "preprocessor.h"
#include "torchrl_pool/env.h"

namespace torchrl_pool::atari {

class Atari {
 public:
  using Options = atari::Options;

  static Specs MakeSpecs(const Options& options);
  explicit Atari(const Options& options);

  void Seed(Entropy entropy);
  void Reset(Row& row);
  Outcome Step(Row& row);

  static ImageSize RenderSize(const Options& options) {
    return {options.screen.height, options.screen.width};
  }
  void Render(std::uint8_t* rgb) const;

  template <class Visitor>
  void VisitState(Visitor& visit);

 private:
  // What a frame, or the frames of a step, came to.
  struct Frames {
    int reward = 0;
    bool terminated = false;
    bool truncated = false;
    bool life_lost = false;
    bool over() const { return terminated || truncated; }
  };
  struct Push {  // on the joystick
    int action;
    float strength;
  };

  // How the two references begin an episode.
  void BeginLikeGymnasium();
  void BeginLikeAleVector();
  void StartGame(bool seeded);
  void StartWithNoops();
  void PressFire();

  // One step: the frames for which the action is repeated, and the picture that they leave.
  Frames Play(Push push);
  // One frame, judged as the dialect does.
  Frames PlayFrame(Push push);
  Push Decode(const Row& row) const;
  Push DecodeJoystick(const float* polar) const;

  void Observe(const Row& row, const Frames& frames) const;

  const Options& options_;
  Emulator emulator_;
  std::optional<Preprocessor> preprocessor_;  // unset: observations are the screen or the RAM as they are
  Rng rng_;                                   // of Gymnasium's wrapper
  LegacyRng vector_rng_;                      // of ale_vector
  std::uint32_t seed_ = 0;
  bool is_seeded_ = false;  // since the last reset
  std::int64_t elapsed_frames_ = 0;
  int lives_ = 0;
};

template <class Visitor>
void Atari::VisitState(Visitor& visit) {
  std::vector<std::uint8_t> machine;
  if constexpr (!Visitor::kReading) machine = emulator_.Save();
  visit(machine, rng_, vector_rng_, seed_, is_seeded_, elapsed_frames_, lives_);
  if (preprocessor_) preprocessor_->VisitState(visit);
  if constexpr (Visitor::kReading) {
    if (preprocessor_ && !preprocessor_->fits(Preprocessor(options_))) {
      throw InvalidArgument("this state is of an env with other options");
    }
    emulator_.Restore(machine);
  }
}

}  // namespace torchrl_pool::atari

#endif  // TORCHRL_POOL_ENVS_ATARI_ATARI_H_
