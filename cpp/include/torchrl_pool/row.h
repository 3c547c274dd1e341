// One env's slices of the batch.
#ifndef TORCHRL_POOL_ROW_H_
#define TORCHRL_POOL_ROW_H_

#include "torchrl_pool/spec.h"
#ifdef TORCHRL_POOL_CHECKED
#include "torchrl_pool/row_check.h"
#endif

#pragma GCC visibility push(hidden)  // the parts of two plugins must not merge in one process
namespace torchrl_pool {

#ifndef TORCHRL_POOL_CHECKED
namespace internal {

// Nothing is checked where every step counts: see row_check.h.
struct RowCheck {
  explicit RowCheck(const Specs&) {}
  template <class T>
  void Output(int) const {}
  template <class T>
  void Action(int, const void* const*) const {}
};

}  // namespace internal
#endif

// Where an env writes, and what it was told to do. build_plugin("mine.cc", checked=True) checks each use.
class Row {
 public:
  Row(const void* const* actions, void* const* outputs, const Specs& specs)
      : actions_(actions), outputs_(outputs), check_(specs) {}

  // The i-th spec that is not an action, in the order of MakeSpecs. NULL for an info that nobody asked for.
  template <class T>
  T* Out(int i = 0) const {
    check_.template Output<T>(i);
    return static_cast<T*>(outputs_[i]);
  }

  // The i-th action spec. Not for Reset. Numbers of a Box are finite, and may lie outside of its bounds.
  template <class T>
  const T* Action(int i = 0) const {
    check_.template Action<T>(i, actions_);
    return static_cast<const T*>(actions_[i]);
  }

 private:
  const void* const* actions_;
  void* const* outputs_;
  [[no_unique_address]] internal::RowCheck check_;
};

}  // namespace torchrl_pool
#pragma GCC visibility pop

#endif  // TORCHRL_POOL_ROW_H_
