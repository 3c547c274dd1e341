// NumPy's streams as rng.h rebuilds them, so that plugin authors and tests can compare draw by draw.
#include <pybind11/stl.h>

#include <numeric>

#include "module.h"
#include "torchrl_pool/rng.h"

namespace py = pybind11;

namespace torchrl_pool::bindings {

void InitRng(py::module_& m) {
  py::class_<Rng>(m, "Rng", "numpy.random.Generator(PCG64(SeedSequence(words))), rebuilt in C++.")
      .def(py::init([](const std::vector<std::uint32_t>& words) {
             if (words.empty()) throw py::value_error("expected at least one word of entropy");
             return Rng(torchrl_pool::Entropy{words.data(), words.size()});
           }),
           py::arg("words"))
      .def("random", &Rng::Random)
      .def("uniform", &Rng::Uniform, py::arg("low"), py::arg("high"))
      .def(
          "integers",
          [](Rng& rng, std::int64_t low, std::int64_t high) {
            if (low >= high) throw py::value_error("expected low < high");
            return rng.Integers(low, high);
          },
          py::arg("low"), py::arg("high"))
      .def(
          "choice",
          [](Rng& rng, std::int64_t size) {
            if (size < 1) throw py::value_error("expected a size of at least 1");
            return rng.Choice(size);
          },
          py::arg("size"))
      .def(
          "permutation",
          [](Rng& rng, std::size_t count) {
            std::vector<std::int64_t> numbers(count);
            std::iota(numbers.begin(), numbers.end(), 0);
            rng.Shuffle(numbers.begin(), numbers.end());
            return numbers;
          },
          py::arg("count"))
      .def("standard_normal", &Rng::StandardNormal)
      .def("normal", &Rng::Normal, py::arg("mean"), py::arg("deviation"))
      .def("next_uint32", &Rng::NextUint32);

  py::class_<LegacyRng>(m, "LegacyRng", "numpy.random.RandomState(words), rebuilt in C++.")
      .def(py::init([](const std::vector<std::uint32_t>& words) {
             if (words.empty()) throw py::value_error("expected at least one word of entropy");
             return LegacyRng(torchrl_pool::Entropy{words.data(), words.size()});
           }),
           py::arg("words"))
      .def("random", &LegacyRng::Random)
      .def("uniform", &LegacyRng::Uniform, py::arg("low"), py::arg("high"))
      .def(
          "integer",
          [](LegacyRng& rng, std::uint32_t count) {
            if (count < 1) throw py::value_error("expected a count of at least 1");
            return rng.Integer(count);
          },
          py::arg("count"))
      .def("standard_normal", &LegacyRng::StandardNormal)
      .def("next_uint32", &LegacyRng::NextUint32);
}

}  // namespace torchrl_pool::bindings
