// A worker's process, by a descriptor that is readable once it has ended.
#ifndef TORCHRL_POOL_CORE_WORKERS_PROCESS_H_
#define TORCHRL_POOL_CORE_WORKERS_PROCESS_H_

namespace torchrl_pool::core {

// Waits for that, so long.
bool HasEnded(int process, int milliseconds);
// At once, whatever it does.
void Kill(int process);

}  // namespace torchrl_pool::core

#endif  // TORCHRL_POOL_CORE_WORKERS_PROCESS_H_
