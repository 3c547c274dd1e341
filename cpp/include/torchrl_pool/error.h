// How an env says what went wrong: it throws one of these, or any std::exception.
#ifndef TORCHRL_POOL_ERROR_H_
#define TORCHRL_POOL_ERROR_H_

#include <cstdio>
#include <exception>
#include <stdexcept>

#include "torchrl_pool/abi.h"

#pragma GCC visibility push(hidden)  // the parts of two plugins must not merge in one process
namespace torchrl_pool {

class InvalidArgument : public std::invalid_argument {  // Python: ValueError
  using std::invalid_argument::invalid_argument;
};
class FileNotFound : public std::runtime_error {  // Python: FileNotFoundError
  using std::runtime_error::runtime_error;
};
class Unsupported : public std::runtime_error {  // Python: NotImplementedError
  using std::runtime_error::runtime_error;
};
class Unchanged : public std::runtime_error {  // a step has failed and left the env as it was: it may go on
  using std::runtime_error::runtime_error;
};

namespace internal {

// Runs what may throw; no exception leaves the plugin.
template <class Function>
int Guard(trp_error* error, Function&& function) noexcept {
  const auto fail = [error](trp_status status, const char* message) {
    std::snprintf(error->message, sizeof error->message, "%s", message);
    return status;
  };
  try {
    function();
    return TRP_OK;
  } catch (const FileNotFound& e) {
    return fail(TRP_FILE_NOT_FOUND, e.what());
  } catch (const Unsupported& e) {
    return fail(TRP_UNSUPPORTED, e.what());
  } catch (const Unchanged& e) {
    return fail(TRP_UNCHANGED, e.what());
  } catch (const std::invalid_argument& e) {
    return fail(TRP_INVALID_ARGUMENT, e.what());
  } catch (const std::exception& e) {
    return fail(TRP_RUNTIME_ERROR, e.what());
  } catch (...) {
    return fail(TRP_RUNTIME_ERROR, "an exception that is not a std::exception");
  }
}

}  // namespace internal

}  // namespace torchrl_pool
#pragma GCC visibility pop

#endif  // TORCHRL_POOL_ERROR_H_
