// Constructors that Python calls where memory may be missing.
#ifndef TORCHRL_POOL_BINDINGS_CONSTRUCTOR_H_
#define TORCHRL_POOL_BINDINGS_CONSTRUCTOR_H_

#include <pybind11/pybind11.h>

#include <memory>
#include <utility>

namespace torchrl_pool::bindings {

// As py::init, for `def("__init__", Constructor<T, …>(), kConstructs, …)`. pybind11 itself registers a new
// object, for which it allocates, after its own `try`, so that a bad_alloc ends the process; of one that
// comes in its holder it does so in time, but then frees the object twice.
template <class T, class... Arguments>
auto Constructor(std::unique_ptr<T> (*make)(Arguments...) = [](Arguments... arguments) {
  return std::make_unique<T>(std::forward<Arguments>(arguments)...);
}) {
  return [make](pybind11::detail::value_and_holder& self, Arguments... arguments) {
    std::unique_ptr<T> made = make(std::forward<Arguments>(arguments)...);
    self.value_ptr() = made.get();
    try {
      self.type->init_instance(self.inst, &made);
    } catch (...) {
      self.value_ptr() = nullptr;
      throw;
    }
  };
}
constexpr pybind11::detail::is_new_style_constructor kConstructs;

}  // namespace torchrl_pool::bindings

#endif  // TORCHRL_POOL_BINDINGS_CONSTRUCTOR_H_
