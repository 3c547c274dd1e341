// One env's part of what is done with states.
#include "state_ops.h"

#include "errors.h"
#include "saved_state.h"
#include "visit.h"

namespace torchrl_pool::core {

void VisitStateOp(const Layout& layout, const Job& job, std::size_t i, EnvSlot& slot) {
  StateOps& ops = *job.state_ops;
  const std::uint32_t env = job.envs[i];
  try {
    if (job.op == Op::kSave) {
      ops.states[i] = SaveState(layout, slot, env);
    } else if (job.op == Op::kLoad) {
      LoadState(layout, slot, env, ops.before[i] == EnvState::kReady, ops.states[i]);
    } else {
      trp_error error{};
      ThrowUnlessOk(slot.task->render(slot.env, ops.pictures[i], &error), slot, env, error);
    }
    ops.is_done[i] = 1;
  } catch (const Interrupted&) {
    throw;  // of the call, and not of the env
  } catch (...) {
    ops.refusals[i] = std::current_exception();
  }
}

}  // namespace torchrl_pool::core
