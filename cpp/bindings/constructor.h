// Constructors that Python calls where memory may be missing.
#ifndef TORCHRL_POOL_BINDINGS_CONSTRUCTOR_H_
#define TORCHRL_POOL_BINDINGS_CONSTRUCTOR_H_

#include <pybind11/pybind11.h>

#include <memory>
#include <utility>

namespace torchrl_pool::bindings {

// As py::init, for `def("__init__", Constructor<T, …>(), kConstructs, …)`, or of a function that makes the
// object's holder. pybind11 itself registers a new object, for which it allocates, after its own `try`, so
// that a bad_alloc ends the process; of one that comes in its holder it does so in time, but then frees it
// twice.
template <class Holder, class... Arguments>
auto Constructor(Holder (*make)(Arguments...)) {
  return [make](pybind11::detail::value_and_holder& self, Arguments... arguments) {
    Holder made = make(std::forward<Arguments>(arguments)...);
    self.value_ptr() = const_cast<void*>(static_cast<const void*>(made.get()));
    try {
      self.type->init_instance(self.inst, &made);
    } catch (...) {
      self.value_ptr() = nullptr;
      throw;
    }
  };
}
template <class T, class... Arguments>
auto Constructor() {
  return Constructor(
      +[](Arguments... arguments) { return std::make_unique<T>(std::forward<Arguments>(arguments)...); });
}
constexpr pybind11::detail::is_new_style_constructor kConstructs;

}  // namespace torchrl_pool::bindings

#endif  // TORCHRL_POOL_BINDINGS_CONSTRUCTOR_H_
