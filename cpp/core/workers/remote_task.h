// Envs in worker processes as a task like any other: its functions copy what a worker has written.
#ifndef TORCHRL_POOL_CORE_WORKERS_REMOTE_TASK_H_
#define TORCHRL_POOL_CORE_WORKERS_REMOTE_TASK_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "plugin.h"
#include "workers/arena.h"

namespace torchrl_pool::core {

// What an env in a worker is to the pool. What a visit asks for its worker has done before.
struct RemoteEnv {
  std::uint32_t env = 0;
  const Arena* arena = nullptr;
  std::function<std::string(std::uint32_t)> save;
  std::function<void(std::uint32_t, std::string_view)> load;
  std::string saved;  // what is asked for twice: first its size, then itself
};

// A task whose entries are described by the first of its envs.
class RemoteTask {
 public:
  RemoteTask(std::string id, std::vector<Spec> specs);
  RemoteTask(const RemoteTask&) = delete;

  // The one configuration of it.
  static std::shared_ptr<const Config> Open(std::string id, std::vector<Spec> specs);

 private:
  const std::string id_;
  const std::vector<Spec> specs_;
  std::vector<trp_spec> raw_;
  trp_task task_{};
};

}  // namespace torchrl_pool::core

#endif  // TORCHRL_POOL_CORE_WORKERS_REMOTE_TASK_H_
