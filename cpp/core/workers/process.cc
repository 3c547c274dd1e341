#include "workers/process.h"

#include <poll.h>
#include <signal.h>

#ifdef __linux__
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace torchrl_pool::core {

bool HasEnded(int process, int milliseconds) {
  pollfd entry{process, POLLIN, 0};
  return poll(&entry, 1, milliseconds) > 0;
}

void Kill(int process) {
#ifdef __linux__
  syscall(SYS_pidfd_send_signal, process, SIGKILL, nullptr, 0);
#else
  (void)process;  // there are such descriptors, and so processes of workers, on Linux only
#endif
}

}  // namespace torchrl_pool::core
