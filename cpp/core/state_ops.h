// What is done with the state of envs as it is between two steps: it is saved, loaded, or drawn.
#ifndef TORCHRL_POOL_CORE_STATE_OPS_H_
#define TORCHRL_POOL_CORE_STATE_OPS_H_

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <vector>

#include "job.h"
#include "plan.h"

namespace torchrl_pool::core {

// What a job with such an operation reads and writes, for each of its envs in their order. Owned by the job,
// since a thread may still write to it when nobody waits any longer.
struct StateOps {
  std::vector<std::vector<std::uint8_t>> states;  // kSave writes them, kLoad reads them
  std::vector<std::uint8_t*> pictures;            // kRender writes them: uint8 [height, width, 3]
  std::shared_ptr<void> owner;                    // of the pictures
  std::vector<EnvState> before;                   // of the envs
  std::vector<std::uint8_t> is_done;
  std::vector<std::exception_ptr> refusals;  // why an env's operation has failed, and changed nothing
};

struct EnvSlot;
struct Layout;

// One env's part, the i-th of the job's. Throws Interrupted alone.
void VisitStateOp(const Layout& layout, const Job& job, std::size_t i, EnvSlot& slot);

}  // namespace torchrl_pool::core

#endif  // TORCHRL_POOL_CORE_STATE_OPS_H_
