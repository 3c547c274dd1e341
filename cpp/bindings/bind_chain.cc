// TorchRL's transforms as programs over rows: their stages, by name. Python checks shapes and dtypes.
#include <pybind11/stl.h>

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "chain.h"
#include "constructor.h"
#include "module.h"
#include "transforms/cat_frames.h"
#include "transforms/copy.h"
#include "transforms/elementwise.h"
#include "transforms/end_of_life.h"
#include "transforms/episode_value.h"
#include "transforms/gray_scale.h"
#include "transforms/init_tracker.h"
#include "transforms/reward_sum.h"
#include "transforms/running_statistics.h"
#include "transforms/step_counter.h"
#include "transforms/time_max_pool.h"
#include "transforms/traj_counter.h"

namespace py = pybind11;

namespace torchrl_pool::bindings {
namespace {

using core::Chain;
using core::ChainColumns;
using core::Parameter;
using Address = std::uintptr_t;
using Index = core::ValueIndex;
using Sizes = std::vector<std::size_t>;
using Stage = std::shared_ptr<core::Stage>;

template <class T>
struct Type {
  using type = T;
};

// Calls `make` with the type that a dtype's name stands for.
template <class Make>
Stage ForFloat(const std::string& dtype, Make&& make) {
  if (dtype == "float32") return make(Type<float>());
  if (dtype == "float64") return make(Type<double>());
  throw py::type_error("expected float32 or float64, got " + dtype);
}

template <class Make>
Stage ForNumber(const std::string& dtype, Make&& make) {
  if (dtype == "int64") return make(Type<std::int64_t>());
  if (dtype == "int32") return make(Type<std::int32_t>());
  if (dtype == "int16") return make(Type<std::int16_t>());
  if (dtype == "int8") return make(Type<std::int8_t>());
  if (dtype == "uint8") return make(Type<std::uint8_t>());
  return ForFloat(dtype, std::forward<Make>(make));
}

template <class Made, class... Arguments>
Stage Make(Arguments... arguments) {
  return std::make_shared<Made>(arguments...);
}

// Of the type that a dtype's name stands for.
template <template <class> class Made, class... Arguments>
Stage OfFloat(const std::string& dtype, Arguments... arguments) {
  return ForFloat(dtype, [&](auto type) { return Make<Made<typename decltype(type)::type>>(arguments...); });
}
template <template <class> class Made, class... Arguments>
Stage OfNumber(const std::string& dtype, Arguments... arguments) {
  return ForNumber(dtype, [&](auto type) { return Make<Made<typename decltype(type)::type>>(arguments...); });
}

template <class Function, class... Parameters>
Stage MakeElementwise(Index in, Index out, std::size_t size, Parameters... parameters) {
  return Make<core::Elementwise<Function>>(in, out, size, Function{parameters...});
}
template <template <class> class Function, class... Parameters>
Stage EachNumber(const std::string& dtype, Index in, Index out, std::size_t size, Parameters... parameters) {
  return ForNumber(dtype, [&](auto type) {
    return MakeElementwise<Function<typename decltype(type)::type>>(in, out, size, parameters...);
  });
}

Stage MakeAffine(const std::string& dtype, Index in, Index out, std::size_t size, const Parameter& loc,
                 const Parameter& scale, bool standard_normal) {
  return ForFloat(dtype, [&](auto type) {
    using Function = core::Affine<typename decltype(type)::type>;
    return MakeElementwise<Function>(in, out, size, loc, scale, standard_normal);
  });
}

Stage MakeCast(const std::string& from, const std::string& to, Index in, Index out, std::size_t size) {
  return ForNumber(from, [&](auto from_type) {
    return ForNumber(to, [&](auto to_type) {
      using Function = core::Cast<typename decltype(from_type)::type, typename decltype(to_type)::type>;
      return MakeElementwise<Function>(in, out, size);
    });
  });
}

Stage MakeGrayScale(const std::string& dtype, const std::string& real, Index in, Index out,
                    std::size_t pictures, std::size_t plane) {
  return ForNumber(dtype, [&](auto type) {
    return ForFloat(real, [&](auto real_type) {
      using T = typename decltype(type)::type;
      return Make<core::GrayScaleStage<T, typename decltype(real_type)::type>>(in, out, pictures, plane);
    });
  });
}

Stage MakeVecNorm(const std::string& dtype, Index in, Index out, std::size_t size, Address sum, Address ssq,
                  Address count, double decay, double eps, bool frozen) {
  return OfFloat<core::VecNormStage>(dtype, in, out, size,
                                     core::VecNormState{sum, ssq, count, decay, eps, frozen});
}

Stage MakeVecNormV2(const std::string& dtype, Index in, Index out, std::size_t size, std::size_t num_envs,
                    Address loc, Address var, Address count, double decay, double eps, bool frozen,
                    bool reduces) {
  const core::VecNormV2State state{loc, var, count, decay, eps, frozen, reduces};
  return OfFloat<core::VecNormV2Stage>(dtype, in, out, size, num_envs, state);
}

Stage MakeCopy(Index in, Index out, const Sizes& sizes, const Sizes& from_strides, const Sizes& to_strides,
               std::size_t from_offset, std::size_t to_offset, std::size_t bytes) {
  return Make<core::CopyStage>(
      in, out, core::CopyShape{sizes, from_strides, to_strides, from_offset, to_offset, bytes});
}

std::vector<std::byte> ToBytes(const py::bytes& bytes) {
  const std::string_view view = bytes;
  const auto* first = reinterpret_cast<const std::byte*>(view.data());
  return {first, first + view.size()};
}

Stage MakeCatFrames(Index in, Index out, Address kept, std::size_t blocks, std::size_t frames,
                    std::size_t bytes, const py::bytes& padding) {
  return Make<core::CatFramesStage>(in, out, kept, core::FramesShape{blocks, frames, bytes},
                                    ToBytes(padding));
}

Stage MakeEpisodeValue(Index before, Index out, const py::bytes& first) {
  return Make<core::EpisodeValueStage>(before, out, ToBytes(first));
}

// For Python.
template <class... Arguments>
auto Returned(Stage (*make)(Arguments...)) {
  return [make](Arguments... arguments) { return Object(make(std::forward<Arguments>(arguments)...)); };
}

Parameter MakeParameter(Address address, const std::string& dtype, bool is_scalar) {
  if (dtype == "float32") return {address, Parameter::Type::kFloat32, is_scalar};
  if (dtype == "float64") return {address, Parameter::Type::kFloat64, is_scalar};
  if (dtype == "int64") return {address, Parameter::Type::kInt64, is_scalar};
  throw py::type_error("expected float32, float64 or int64, got " + dtype);
}

void InitStages(py::module_& m) {
  py::class_<core::Stage, Stage>(m, "Stage", "What one transform does with one entry of a row.");
  py::class_<Parameter>(m, "Parameter", "A tensor that a stage reads where it lies.")
      .def("__init__", Constructor<Parameter>(), kConstructs)
      .def("__init__", Constructor(+[](Address address, const std::string& dtype, bool is_scalar) {
             return std::make_unique<Parameter>(MakeParameter(address, dtype, is_scalar));
           }),
           kConstructs, py::arg("address"), py::arg("dtype"), py::arg("is_scalar"));
  const auto define = [&m](const char* name, const auto& make, const auto*... arguments) {
    m.def(name, Returned(make), py::kw_only(), py::arg(arguments)...);
  };
  define("reward_sum", &OfNumber<core::RewardSumStage, Index, Index, Index, std::size_t>, "dtype", "reward",
         "before", "out", "size");
  define("step_counter",
         &Make<core::StepCounterStage, Index, Index, std::int64_t, Index, std::optional<Index>>, "before",
         "out", "max_steps", "truncated", "done");
  define("init_tracker", &Make<core::InitTrackerStage, Index>, "out");
  define("affine", &MakeAffine, "dtype", "in_", "out", "size", "loc", "scale", "standard_normal");
  define("clamp", &EachNumber<core::Clamp, Parameter, Parameter>, "dtype", "in_", "out", "size", "low",
         "high");
  define("sign", &EachNumber<core::Sign>, "dtype", "in_", "out", "size");
  define("is_positive", &EachNumber<core::IsPositive>, "dtype", "in_", "out", "size");
  define("cast", &MakeCast, "from_dtype", "to_dtype", "in_", "out", "size");
  define("vec_norm", &MakeVecNorm, "dtype", "in_", "out", "size", "sum", "ssq", "count", "decay", "eps",
         "frozen");
  define("vec_norm_v2", &MakeVecNormV2, "dtype", "in_", "out", "size", "num_envs", "loc", "var", "count",
         "decay", "eps", "frozen", "reduces");
  define("copy", &MakeCopy, "in_", "out", "sizes", "from_strides", "to_strides", "from_offset", "to_offset",
         "bytes");
  define("cat_frames", &MakeCatFrames, "in_", "out", "kept", "blocks", "frames", "bytes", "padding");
  define("gray_scale", &MakeGrayScale, "dtype", "real", "in_", "out", "pictures", "plane");
  define("time_max_pool",
         &OfNumber<core::TimeMaxPoolStage, Index, Index, std::size_t, Address, std::size_t, std::size_t>,
         "dtype", "in_", "out", "size", "kept", "times", "num_envs");
  define("episode_value", &MakeEpisodeValue, "before", "out", "first");
  define("end_of_life", &Make<core::EndOfLifeStage, Index, Index, Index, Index>, "lives", "before", "done",
         "out");
  define("traj_counter", &Make<core::TrajCounterStage, Index, std::size_t, Address>, "out", "num_envs",
         "count");
}

}  // namespace

void InitChain(py::module_& m) {
  py::class_<Chain, std::shared_ptr<Chain>>(m, "Chain", "Stages in their order, and the columns they write.")
      .def("__init__",
           Constructor(+[](std::size_t pool_columns, std::vector<std::size_t> columns,
                           std::size_t pool_actions, std::vector<std::size_t> carried,
                           std::vector<std::size_t> temps) {
             return std::make_shared<Chain>(ChainColumns{pool_columns, std::move(columns), pool_actions,
                                                         std::move(carried), std::move(temps)});
           }),
           kConstructs, py::kw_only(), py::arg("pool_columns"), py::arg("columns"), py::arg("pool_actions"),
           py::arg("carried"), py::arg("temps"))
      .def(
          "add",
          [](Chain& chain, std::size_t phase, const Stage& stage, bool at_steps, bool at_resets) {
            chain.Add(phase, stage, at_steps, at_resets);
          },
          py::arg("phase"), py::arg("stage"), py::kw_only(), py::arg("at_steps"), py::arg("at_resets"))
      .def(
          "repeat",
          [](Chain& chain, std::size_t times, std::size_t reward, std::size_t size,
             const std::string& dtype) { chain.Repeat({times, reward, size, dtype == "float64"}); },
          py::kw_only(), py::arg("times"), py::arg("reward"), py::arg("size"), py::arg("dtype"))
      .def_property_readonly("num_phases", &Chain::num_phases);
  auto stages = m.def_submodule("stages", "What transforms do with the entries of a row.");
  InitStages(stages);
}

}  // namespace torchrl_pool::bindings
