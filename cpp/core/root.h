// The second phase of a ticket: the rest of the root.
#ifndef TORCHRL_POOL_CORE_ROOT_H_
#define TORCHRL_POOL_CORE_ROOT_H_

#include <cstdint>
#include <span>

#include "ticket.h"

namespace torchrl_pool::core {

// Where these envs go on with their episodes, their rows of the root are copied from `out`.
inline void CompleteRoot(const Layout& layout, const Ticket& ticket, std::span<const std::uint32_t> envs) {
  ForEachRun(envs, [&](std::uint32_t first, std::uint32_t count) {
    const Rows done = ticket.out.RowsFrom(layout.done, first);
    for (std::size_t i = 0; i < layout.outputs.size(); ++i) {
      if (!ticket.root.base[i] || !ticket.out.base[i] || ticket.root.base[i] == ticket.out.base[i]) continue;
      CopyRowsWhereNot(done, ticket.out.RowsFrom(i, first), ticket.root.RowsFrom(i, first),
                       layout.outputs[i].row_bytes, count);
    }
  });
}

}  // namespace torchrl_pool::core

#endif  // TORCHRL_POOL_CORE_ROOT_H_
