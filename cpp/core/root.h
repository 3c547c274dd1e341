// The last phase of a ticket: the rest of the root.
#ifndef TORCHRL_POOL_CORE_ROOT_H_
#define TORCHRL_POOL_CORE_ROOT_H_

#include <cstdint>
#include <span>

#include "chain.h"
#include "ticket.h"

namespace torchrl_pool::core {

// Whether the root is complete once an env has been visited: no later phase of a chain writes to it.
inline bool CompletesRootInVisits(const Ticket& ticket) {
  return ticket.completes_root && (!ticket.chain || ticket.chain->num_phases() == 1);
}

// Of a column of the ticket's batches: the pool's come first, then the chain's.
inline std::size_t RowBytes(const Layout& layout, const Ticket& ticket, std::size_t column) {
  const std::size_t own = layout.outputs.size();
  return column < own ? layout.outputs[column].row_bytes : ticket.chain->column_bytes(column - own);
}

// Where these envs go on with their episodes, their rows of the root are copied from `out`: everywhere, if
// the step begins none.
inline void CompleteRoot(const Layout& layout, const Ticket& ticket, std::span<const std::uint32_t> envs) {
  const bool may_reset = ticket.op == Op::kStepAndReset;
  ForEachRun(envs, [&](std::uint32_t first, std::uint32_t count) {
    const Rows done = ticket.out.RowsFrom(layout.done, first);
    for (std::size_t i = 0; i < ticket.out.base.size(); ++i) {
      if (!ticket.root.base[i] || !ticket.out.base[i] || ticket.root.base[i] == ticket.out.base[i]) continue;
      const Rows from = ticket.out.RowsFrom(i, first), to = ticket.root.RowsFrom(i, first);
      const std::size_t row_bytes = RowBytes(layout, ticket, i);
      if (may_reset) {
        CopyRowsWhereNot(done, from, to, row_bytes, count);
      } else {
        CopyRows(from, to, row_bytes, count);
      }
    }
  });
}

}  // namespace torchrl_pool::core

#endif  // TORCHRL_POOL_CORE_ROOT_H_
