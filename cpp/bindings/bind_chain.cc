// TorchRL's transforms as programs over rows: their stages, by name. Python checks shapes and dtypes.
#include <pybind11/stl.h>

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "chain.h"
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
using core::ChainStage;
using core::Parameter;
using Stage = std::shared_ptr<ChainStage>;

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

template <class In, class Out, class Function>
Stage MakeElementwise(std::size_t in, std::size_t out, std::size_t size, Function function) {
  return std::make_shared<core::Elementwise<In, Out, Function>>(in, out, size, function);
}

Stage MakeRewardSum(const std::string& dtype, std::size_t reward, std::size_t before, std::size_t out,
                    std::size_t size) {
  return ForNumber(dtype, [&](auto type) -> Stage {
    return std::make_shared<core::RewardSumStage<typename decltype(type)::type>>(reward, before, out, size);
  });
}

Stage MakeAffine(const std::string& dtype, std::size_t in, std::size_t out, std::size_t size,
                 const Parameter& loc, const Parameter& scale, bool standard_normal) {
  return ForFloat(dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    return MakeElementwise<T, T>(in, out, size, core::Affine<T>{loc, scale, standard_normal});
  });
}

Stage MakeClamp(const std::string& dtype, std::size_t in, std::size_t out, std::size_t size,
                const Parameter& low, const Parameter& high) {
  return ForNumber(dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    return MakeElementwise<T, T>(in, out, size, core::Clamp<T>{low, high});
  });
}

Stage MakeSign(const std::string& dtype, std::size_t in, std::size_t out, std::size_t size) {
  return ForNumber(dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    return MakeElementwise<T, T>(in, out, size, core::Sign<T>{});
  });
}

Stage MakeIsPositive(const std::string& dtype, std::size_t in, std::size_t out, std::size_t size) {
  return ForNumber(dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    return MakeElementwise<T, std::int8_t>(in, out, size, core::IsPositive<T>{});
  });
}

Stage MakeCast(const std::string& from, const std::string& to, std::size_t in, std::size_t out,
               std::size_t size) {
  return ForNumber(from, [&](auto from_type) {
    return ForNumber(to, [&](auto to_type) {
      using In = typename decltype(from_type)::type;
      using Out = typename decltype(to_type)::type;
      return MakeElementwise<In, Out>(in, out, size, core::Cast<In, Out>{});
    });
  });
}

Stage MakeVecNorm(const std::string& dtype, std::size_t in, std::size_t out, std::size_t size,
                  const core::VecNormState& state) {
  return ForFloat(dtype, [&](auto type) -> Stage {
    return std::make_shared<core::VecNormStage<typename decltype(type)::type>>(in, out, size, state);
  });
}

Stage MakeVecNormV2(const std::string& dtype, std::size_t in, std::size_t out, std::size_t size,
                    std::size_t num_envs, const core::VecNormV2State& state) {
  return ForFloat(dtype, [&](auto type) -> Stage {
    return std::make_shared<core::VecNormV2Stage<typename decltype(type)::type>>(in, out, size, num_envs,
                                                                                 state);
  });
}

std::vector<std::byte> MakeBytes(const py::bytes& bytes) {
  const std::string_view view = bytes;
  const auto* first = reinterpret_cast<const std::byte*>(view.data());
  return {first, first + view.size()};
}

Stage MakeGrayScale(const std::string& dtype, const std::string& real, std::size_t in, std::size_t out,
                    std::size_t pictures, std::size_t plane) {
  return ForNumber(dtype, [&](auto type) {
    return ForFloat(real, [&](auto real_type) -> Stage {
      using T = typename decltype(type)::type;
      using Mid = typename decltype(real_type)::type;
      return std::make_shared<core::GrayScaleStage<T, Mid>>(in, out, pictures, plane);
    });
  });
}

Stage MakeTimeMaxPool(const std::string& dtype, std::size_t in, std::size_t out, std::size_t size,
                      std::uintptr_t kept, std::size_t times, std::size_t num_envs) {
  return ForNumber(dtype, [&](auto type) -> Stage {
    using T = typename decltype(type)::type;
    return std::make_shared<core::TimeMaxPoolStage<T>>(in, out, size, kept, times, num_envs);
  });
}

Parameter MakeParameter(std::uintptr_t address, const std::string& dtype, bool is_scalar) {
  if (dtype == "float32") return {address, Parameter::Type::kFloat32, is_scalar};
  if (dtype == "float64") return {address, Parameter::Type::kFloat64, is_scalar};
  if (dtype == "int64") return {address, Parameter::Type::kInt64, is_scalar};
  throw py::type_error("expected float32, float64 or int64, got " + dtype);
}

void InitStages(py::module_& m) {
  py::class_<ChainStage, Stage>(m, "ChainStage", "What one transform does with one entry of a row.");
  py::class_<Parameter>(m, "Parameter", "A tensor that a stage reads where it lies.")
      .def(py::init<>())
      .def(py::init(&MakeParameter), py::arg("address"), py::arg("dtype"), py::arg("is_scalar"));
  m.def("reward_sum", &MakeRewardSum, py::kw_only(), py::arg("dtype"), py::arg("reward"), py::arg("before"),
        py::arg("out"), py::arg("size"));
  m.def(
      "step_counter",
      [](std::size_t before, std::size_t out, std::int64_t max_steps, std::size_t truncated,
         std::optional<std::size_t> done) -> Stage {
        return std::make_shared<core::StepCounterStage>(before, out, max_steps, truncated, done);
      },
      py::kw_only(), py::arg("before"), py::arg("out"), py::arg("max_steps"), py::arg("truncated"),
      py::arg("done"));
  m.def(
      "init_tracker", [](std::size_t out) -> Stage { return std::make_shared<core::InitTrackerStage>(out); },
      py::kw_only(), py::arg("out"));
  m.def("affine", &MakeAffine, py::kw_only(), py::arg("dtype"), py::arg("in_"), py::arg("out"),
        py::arg("size"), py::arg("loc"), py::arg("scale"), py::arg("standard_normal"));
  m.def("clamp", &MakeClamp, py::kw_only(), py::arg("dtype"), py::arg("in_"), py::arg("out"), py::arg("size"),
        py::arg("low"), py::arg("high"));
  m.def("sign", &MakeSign, py::kw_only(), py::arg("dtype"), py::arg("in_"), py::arg("out"), py::arg("size"));
  m.def("is_positive", &MakeIsPositive, py::kw_only(), py::arg("dtype"), py::arg("in_"), py::arg("out"),
        py::arg("size"));
  m.def("cast", &MakeCast, py::kw_only(), py::arg("from_dtype"), py::arg("to_dtype"), py::arg("in_"),
        py::arg("out"), py::arg("size"));
  m.def(
      "vec_norm",
      [](const std::string& dtype, std::size_t in, std::size_t out, std::size_t size, std::uintptr_t sum,
         std::uintptr_t ssq, std::uintptr_t count, std::uintptr_t lock, double decay, double eps,
         bool frozen) {
        return MakeVecNorm(dtype, in, out, size, {sum, ssq, count, lock, decay, eps, frozen});
      },
      py::kw_only(), py::arg("dtype"), py::arg("in_"), py::arg("out"), py::arg("size"), py::arg("sum"),
      py::arg("ssq"), py::arg("count"), py::arg("lock"), py::arg("decay"), py::arg("eps"), py::arg("frozen"));
  m.def(
      "vec_norm_v2",
      [](const std::string& dtype, std::size_t in, std::size_t out, std::size_t size, std::size_t num_envs,
         std::uintptr_t loc, std::uintptr_t var, std::uintptr_t count, std::uintptr_t lock, double decay,
         double eps, bool frozen, bool reduces) {
        return MakeVecNormV2(dtype, in, out, size, num_envs,
                             {loc, var, count, lock, decay, eps, frozen, reduces});
      },
      py::kw_only(), py::arg("dtype"), py::arg("in_"), py::arg("out"), py::arg("size"), py::arg("num_envs"),
      py::arg("loc"), py::arg("var"), py::arg("count"), py::arg("lock"), py::arg("decay"), py::arg("eps"),
      py::arg("frozen"), py::arg("reduces"));
  m.def(
      "copy",
      [](std::size_t in, std::size_t out, std::vector<std::size_t> sizes,
         std::vector<std::size_t> from_strides, std::vector<std::size_t> to_strides, std::size_t from_offset,
         std::size_t to_offset, std::size_t bytes) -> Stage {
        return std::make_shared<core::CopyStage>(
            in, out,
            core::CopyShape{std::move(sizes), std::move(from_strides), std::move(to_strides), from_offset,
                            to_offset, bytes});
      },
      py::kw_only(), py::arg("in_"), py::arg("out"), py::arg("sizes"), py::arg("from_strides"),
      py::arg("to_strides"), py::arg("from_offset"), py::arg("to_offset"), py::arg("bytes"));
  m.def(
      "cat_frames",
      [](std::size_t in, std::size_t out, std::uintptr_t kept, std::size_t blocks, std::size_t frames,
         std::size_t bytes, const py::bytes& padding) -> Stage {
        const core::FramesShape shape{blocks, frames, bytes};
        return std::make_shared<core::CatFramesStage>(in, out, kept, shape, MakeBytes(padding));
      },
      py::kw_only(), py::arg("in_"), py::arg("out"), py::arg("kept"), py::arg("blocks"), py::arg("frames"),
      py::arg("bytes"), py::arg("padding"));
  m.def("gray_scale", &MakeGrayScale, py::kw_only(), py::arg("dtype"), py::arg("real"), py::arg("in_"),
        py::arg("out"), py::arg("pictures"), py::arg("plane"));
  m.def("time_max_pool", &MakeTimeMaxPool, py::kw_only(), py::arg("dtype"), py::arg("in_"), py::arg("out"),
        py::arg("size"), py::arg("kept"), py::arg("times"), py::arg("num_envs"));
  m.def(
      "episode_value",
      [](std::size_t before, std::size_t out, const py::bytes& first) -> Stage {
        return std::make_shared<core::EpisodeValueStage>(before, out, MakeBytes(first));
      },
      py::kw_only(), py::arg("before"), py::arg("out"), py::arg("first"));
  m.def(
      "end_of_life",
      [](std::size_t lives, std::size_t before, std::size_t done, std::size_t out) -> Stage {
        return std::make_shared<core::EndOfLifeStage>(lives, before, done, out);
      },
      py::kw_only(), py::arg("lives"), py::arg("before"), py::arg("done"), py::arg("out"));
  m.def(
      "traj_counter",
      [](std::size_t out, std::size_t num_envs, std::uintptr_t count, std::uintptr_t lock) -> Stage {
        return std::make_shared<core::TrajCounterStage>(out, num_envs, count, lock);
      },
      py::kw_only(), py::arg("out"), py::arg("num_envs"), py::arg("count"), py::arg("lock"));
}

}  // namespace

void InitChain(py::module_& m) {
  py::class_<Chain, std::shared_ptr<Chain>>(m, "Chain", "Stages in their order, and the columns they write.")
      .def(py::init([](std::size_t pool_columns, std::vector<std::size_t> columns, std::size_t pool_actions,
                       std::vector<std::size_t> carried, std::vector<std::size_t> temps) {
             return std::make_shared<Chain>(ChainColumns{pool_columns, std::move(columns), pool_actions,
                                                         std::move(carried), std::move(temps)});
           }),
           py::kw_only(), py::arg("pool_columns"), py::arg("columns"), py::arg("pool_actions"),
           py::arg("carried"), py::arg("temps"))
      .def("add", &Chain::Add, py::arg("phase"), py::arg("stage"), py::kw_only(), py::arg("at_steps"),
           py::arg("at_resets"))
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
