// From the console's screen to the stacked pictures of an observation.
#ifndef TORCHRL_POOL_ENVS_ATARI_PREPROCESSOR_H_
#define TORCHRL_POOL_ENVS_ATARI_PREPROCESSOR_H_

#include "frame_stack.h"
#include "options.h"
#include "pooled_frame.h"

namespace torchrl_pool::atari {

class Preprocessor {
 public:
  explicit Preprocessor(const Options& options)
      : options_(options),
        frame_(options.screen.height, options.screen.width, options.channels(), &options.palette),
        stack_(
            static_cast<int>(options.stack_size),
            static_cast<std::size_t>(options.picture.height * options.picture.width * options.channels())) {}

  // The pixels of the next observation, from the frames that it shows.
  PooledFrame& frame() { return frame_; }

  // Begins an episode with what `frame` holds: the only picture, before it nothing but black or itself.
  void Begin() {
    if (options_.is_ale_vector()) stack_.Clear();
    frame_.MarkAll(true);
    options_.resize(frame_.pixels(), frame_.changed(), stack_.newest());
    if (!options_.is_ale_vector()) stack_.Repeat();
  }

  // Adds what `frame` holds as the newest picture.
  void Push() { options_.resize(frame_.pixels(), frame_.changed(), stack_.Push()); }

  void Write(const Row& row) const {
    if (options_.scale_obs) {
      stack_.WriteScaled(row.Out<float>());
    } else {
      stack_.Write(row.Out<std::uint8_t>());
    }
  }

  template <class Visitor>
  void VisitState(Visitor& visit) {
    frame_.VisitState(visit);
    stack_.VisitState(visit);
  }
  // Whether a state that was read is one of an env with the same options.
  bool fits(const Preprocessor& other) const {
    return frame_.fits(other.frame_) && stack_.fits(other.stack_);
  }

 private:
  const Options& options_;
  PooledFrame frame_;
  FrameStack stack_;
};

}  // namespace torchrl_pool::atari

#endif  // TORCHRL_POOL_ENVS_ATARI_PREPROCESSOR_H_
