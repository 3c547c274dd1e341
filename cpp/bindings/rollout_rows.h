// Where a rollout's batch has the rows of consecutive envs.
#ifndef TORCHRL_POOL_BINDINGS_ROLLOUT_ROWS_H_
#define TORCHRL_POOL_BINDINGS_ROLLOUT_ROWS_H_

#include <cstddef>
#include <cstdint>
#include <tuple>
#include <vector>

#include "plain_tensors.h"

namespace torchrl_pool::bindings {

// In each column the row of the first env at step 0, and the bytes from an env's row to the next env's and
// from a step to the next.
struct RolloutRows {
  using Column = std::tuple<std::uintptr_t, std::size_t, std::size_t>;

  std::uint32_t first, count;
  std::vector<Column> outputs;  // without an address: the row goes to the next root instead
  std::vector<Column> recorded;
  std::vector<std::size_t> recorded_bytes;  // of a row
  std::vector<std::size_t> output_strides;
  // What finds the recorded entries, and what owns the batch.
  const PlainTensors* plain_recorded;
  pybind11::object plain_owner, owner;

  static std::byte* At(const Column& column, std::size_t step) {
    const auto& [address, env_stride, step_stride] = column;
    return address == 0 ? nullptr : reinterpret_cast<std::byte*>(address) + step * step_stride;
  }
};

}  // namespace torchrl_pool::bindings

#endif  // TORCHRL_POOL_BINDINGS_ROLLOUT_ROWS_H_
