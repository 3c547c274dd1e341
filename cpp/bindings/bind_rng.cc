// NumPy's streams as rng.h rebuilds them, so that plugin authors and tests can compare draw by draw.
#include <pybind11/stl.h>

#include <numeric>

#include "module.h"
#include "torchrl_pool/rng.h"

namespace py = pybind11;

namespace torchrl_pool::bindings {
namespace {

void CheckLeast(const char* what, std::int64_t value) {
  if (value < 1) throw py::value_error(std::string("expected ") + what + " of at least 1");
}

// What both kinds of streams have.
template <class Stream>
py::class_<Stream> Define(py::module_& m, const char* name, const char* help) {
  return py::class_<Stream>(m, name, help)
      .def(py::init([](const std::vector<std::uint32_t>& words) {
             if (words.empty()) throw py::value_error("expected at least one word of entropy");
             return Stream(Entropy{words.data(), words.size()});
           }),
           py::arg("words"))
      .def("random", &Stream::Random)
      .def("uniform", &Stream::Uniform, py::arg("low"), py::arg("high"))
      .def("standard_normal", &Stream::StandardNormal)
      .def("next_uint32", &Stream::NextUint32);
}

}  // namespace

void InitRng(py::module_& m) {
  Define<Rng>(m, "Rng", "numpy.random.Generator(PCG64(SeedSequence(words))), rebuilt in C++.")
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
            CheckLeast("a size", size);
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
      .def("normal", &Rng::Normal, py::arg("mean"), py::arg("deviation"));
  Define<LegacyRng>(m, "LegacyRng", "numpy.random.RandomState(words), rebuilt in C++.")
      .def(
          "integer",
          [](LegacyRng& rng, std::uint32_t count) {
            CheckLeast("a count", count);
            return rng.Integer(count);
          },
          py::arg("count"));
}

}  // namespace torchrl_pool::bindings
