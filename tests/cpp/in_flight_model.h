// What a caller knows of envs in flight.
#ifndef TORCHRL_POOL_TESTS_IN_FLIGHT_MODEL_H_
#define TORCHRL_POOL_TESTS_IN_FLIGHT_MODEL_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "fixture.h"
#include "layout.h"
#include "plan.h"

namespace torchrl_pool::test {

constexpr std::int64_t kFailingAction = 9, kSlowAction = 8, kEpisodeLength = 5;

// The memory of one submission.
struct Rows {
  Rows(const core::Layout& layout, std::size_t count)
      : actions(layout.actions, count), out(layout.outputs, count), root(layout.outputs, count) {}

  // As Pool::CopyRowsOf wants it.
  static std::vector<std::byte*> ColumnsOf(const Tensors& tensors, std::size_t count) {
    std::vector<std::byte*> columns;
    for (std::size_t i = 0; i < count; ++i) columns.push_back(const_cast<std::byte*>(tensors.Row(i, 0)));
    return columns;
  }

  Tensors actions, out, root;
};

enum class At { kRest, kSent, kInJob, kAbandoned };
enum class Episode { kGoesOn, kFailed, kUnknown };

struct Env {
  At at = At::kRest;
  Episode episode = Episode::kGoesOn;
  bool held_up = false;  // perhaps, by the gate
  // Where it is sent, or in a job:
  core::Op op = core::Op::kReset;
  bool alone = false;
  std::int64_t action = 0;

  bool fails() const { return op != core::Op::kReset && action == kFailingAction; }
};

}  // namespace torchrl_pool::test

#endif  // TORCHRL_POOL_TESTS_IN_FLIGHT_MODEL_H_
