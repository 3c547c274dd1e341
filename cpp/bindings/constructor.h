// Python's objects of what C++ has made, where memory may be missing.
#ifndef TORCHRL_POOL_BINDINGS_CONSTRUCTOR_H_
#define TORCHRL_POOL_BINDINGS_CONSTRUCTOR_H_

#include <pybind11/pybind11.h>

#include <memory>
#include <utility>

namespace torchrl_pool::bindings {

// Makes an object of Python's that has nothing yet hold this. pybind11 itself registers a new object, for
// which it allocates, after its own `try`, so that a bad_alloc ends the process; of one that comes in its
// holder it does so in time, but then frees it twice.
template <class Holder>
void Fill(pybind11::detail::value_and_holder& self, Holder made) {
  self.value_ptr() = const_cast<void*>(static_cast<const void*>(made.get()));
  try {
    self.type->init_instance(self.inst, &made);
  } catch (...) {
    self.value_ptr() = nullptr;
    throw;
  }
}

// As py::init, for `def("__init__", Constructor<T, …>(), kConstructs, …)`, or of a function that makes the
// object's holder.
template <class Holder, class... Arguments>
auto Constructor(Holder (*make)(Arguments...)) {
  return [make](pybind11::detail::value_and_holder& self, Arguments... arguments) {
    Fill(self, make(std::forward<Arguments>(arguments)...));
  };
}
template <class T, class... Arguments>
auto Constructor() {
  return Constructor(
      +[](Arguments... arguments) { return std::make_unique<T>(std::forward<Arguments>(arguments)...); });
}
constexpr pybind11::detail::is_new_style_constructor kConstructs;

// A new object of Python's for a function to return.
template <class Holder>
pybind11::object Object(Holder made) {
  auto* const type =
      reinterpret_cast<PyTypeObject*>(pybind11::type::of<typename Holder::element_type>().ptr());
  auto object = pybind11::reinterpret_steal<pybind11::object>(type->tp_new(type, nullptr, nullptr));
  if (!object) throw pybind11::error_already_set();
  auto* const instance = reinterpret_cast<pybind11::detail::instance*>(object.ptr());
  auto self = instance->get_value_and_holder(pybind11::detail::get_type_info(type));
  Fill(self, std::move(made));
  return object;
}

}  // namespace torchrl_pool::bindings

#endif  // TORCHRL_POOL_BINDINGS_CONSTRUCTOR_H_
