// The envs of a pool: their simulators, what each may do next, and why those that failed have.
//
// The pool's mutex guards everything but the slots. A slot belongs to whoever works on its env: the thread
// that visits it while it is in flight, and the holder of the mutex while it is not.
#ifndef TORCHRL_POOL_CORE_ENV_TABLE_H_
#define TORCHRL_POOL_CORE_ENV_TABLE_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "errors.h"
#include "job.h"
#include "layout.h"
#include "visit.h"

namespace torchrl_pool::core {

struct EnvRequest {
  std::shared_ptr<const Config> config;
  std::int64_t max_episode_steps;  // 0: no limit
};

class EnvTable {
 public:
  // Throws StatusError where the envs cannot share a pool.
  EnvTable(std::vector<EnvRequest> envs, const LayoutOptions& options);
  ~EnvTable();
  EnvTable(const EnvTable&) = delete;
  EnvTable& operator=(const EnvTable&) = delete;

  const Layout& layout() const { return layout_; }
  std::uint32_t size() const { return static_cast<std::uint32_t>(requests_.size()); }
  std::span<const std::uint32_t> all() const { return all_; }

  // Any thread that works on the env.
  EnvSlot& slot(std::uint32_t env) { return slots_[env]; }
  // By the thread that is about to create it.
  EnvSlot& NewSlot(std::uint32_t env);

  // ---- The rules. All throw before anything has changed.

  // Puts a job's envs in flight, if their states and its actions allow that. Throws PoolError,
  // StatusError.
  void Launch(const Job& job);
  // The job is over. Its results are known to its caller, or the envs' states are unknown.
  void Land(const Job& job, bool is_known);

  void CheckIndex(std::uint64_t env) const;  // throws StatusError
  EnvState state(std::uint32_t env) const { return states_[env]; }
  const Config& config(std::uint32_t env) const { return *requests_[env].config; }

  void SetState(std::span<const std::uint32_t> envs, EnvState state);
  void MarkFailed(std::span<const EnvFault> faults);  // but for those that are unchanged

  // In words. There is at least one fault.
  EnvFailure FailureOf(std::vector<EnvFault> faults) const;

  // Destroys the simulator of an env that no thread is in.
  void Destroy(std::uint32_t env);

 private:
  void CheckStates(Op op, std::span<const std::uint32_t> envs) const;
  void CheckActions(const Batch& actions, std::span<const std::uint32_t> envs, std::uint32_t num_steps) const;
  void CheckCan(Op op, std::span<const std::uint32_t> envs) const;
  [[noreturn]] void Refuse(Op op, std::uint32_t env) const;

  const std::vector<EnvRequest> requests_;
  const Layout layout_;
  const bool one_config_;
  std::vector<std::uint32_t> all_;  // 0, 1, 2, ...
  // First touched by each env's home, which creates it.
  const ZeroedBytes slot_memory_;
  const ZeroedBytes stage_states_;
  EnvSlot* const slots_;
  std::vector<EnvState> states_;
  std::unordered_map<std::uint32_t, std::string> fault_messages_;
};

}  // namespace torchrl_pool::core

#endif  // TORCHRL_POOL_CORE_ENV_TABLE_H_
