// The greatest of what an episode has shown lately, as TorchRL's TimeMaxPool keeps it: in a tensor of the
// user's transform, which is read and written where it lies.
#ifndef TORCHRL_POOL_CORE_TRANSFORMS_TIME_MAX_POOL_H_
#define TORCHRL_POOL_CORE_TRANSFORMS_TIME_MAX_POOL_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "stage.h"

namespace torchrl_pool::core {

template <class T>
class TimeMaxPoolStage : public RowStage<TimeMaxPoolStage<T>> {
 public:
  // `kept`: the address of the rows of all envs for each of the last `times` times, the newest first.
  TimeMaxPoolStage(ValueIndex in, ValueIndex out, std::size_t size, std::uintptr_t kept, std::size_t times,
                   std::size_t num_envs)
      : in_(in), out_(out), size_(size), kept_(kept), times_(times), num_envs_(num_envs) {}

  void Step(const StageRow& row) const {
    for (std::size_t time = times_; --time > 0;) std::copy_n(Kept(row, time - 1), size_, Kept(row, time));
    Write(row);
  }

  // Zeros stand for what was before the episode.
  void Reset(const StageRow& row) const {
    for (std::size_t time = 1; time < times_; ++time) std::fill_n(Kept(row, time), size_, T{0});
    Write(row);
  }

 private:
  T* Kept(const StageRow& row, std::size_t time) const {
    return reinterpret_cast<T*>(kept_) + (time * num_envs_ + row.env) * size_;
  }

  void Write(const StageRow& row) const {
    T* const out = row.Get<T>(out_);
    std::copy_n(row.Get<const T>(in_), size_, Kept(row, 0));
    std::copy_n(Kept(row, 0), size_, out);
    for (std::size_t time = 1; time < times_; ++time) {
      const T* const earlier = Kept(row, time);
      // nan is the greatest of all.
      for (std::size_t i = 0; i < size_; ++i) {
        if (out[i] == out[i] && !(earlier[i] <= out[i])) out[i] = earlier[i];
      }
    }
  }

  const ValueIndex in_, out_;
  const std::size_t size_;
  const std::uintptr_t kept_;
  const std::size_t times_, num_envs_;
};

}  // namespace torchrl_pool::core

#endif  // TORCHRL_POOL_CORE_TRANSFORMS_TIME_MAX_POOL_H_
