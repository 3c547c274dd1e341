// The exceptions that leave the core; the bindings turn each into a Python exception type.
#ifndef TORCHRL_POOL_CORE_ERRORS_H_
#define TORCHRL_POOL_CORE_ERRORS_H_

#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "torchrl_pool/abi.h"

namespace torchrl_pool::core {

// The caller broke a rule: a wrong state, a closed pool, a forked child.
class PoolError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// What a plugin or an argument is at fault for, with the ABI's status as its kind.
class StatusError : public std::runtime_error {
 public:
  StatusError(trp_status status, const std::string& message) : std::runtime_error(message), status(status) {}
  const trp_status status;
};

// The message of a plugin, which may have filled it to the brim. Whether it is UTF-8 is not checked here: the
// bindings replace invalid bytes.
inline std::string MessageOf(const trp_error& error) {
  return {error.message, strnlen(error.message, sizeof error.message)};
}

struct EnvFault {
  static constexpr std::int64_t kInReset = 0, kInCreation = -1, kInStateOp = -2;

  std::int64_t env_index;
  std::string message;
  std::int64_t step;  // of its episode, from 1 on; or one of the above (kInStateOp: saved, loaded, drawn)
  bool hung = false;  // its thread has not come back, and may still write to the env's rows
  bool unchanged = false;  // the env is as it was before the step
};

// One or more envs failed in a step or a reset that ran to its end for all others.
class EnvFailure : public std::runtime_error {
 public:
  EnvFailure(const std::string& message, std::vector<EnvFault> faults)
      : std::runtime_error(message), faults(std::move(faults)) {}
  const std::vector<EnvFault> faults;
};

// The wait was given up because the interrupt check asked for it.
class Interrupted : public std::exception {};

}  // namespace torchrl_pool::core

#endif  // TORCHRL_POOL_CORE_ERRORS_H_
