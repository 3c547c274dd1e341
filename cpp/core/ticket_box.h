// The tickets of a pool, used again and again: never freed while the pool lives, so that a thread may still
// notify one that it has finished.
#ifndef TORCHRL_POOL_CORE_TICKET_BOX_H_
#define TORCHRL_POOL_CORE_TICKET_BOX_H_

#include <algorithm>
#include <atomic>
#include <deque>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "perturb.h"
#include "ticket.h"

namespace torchrl_pool::core {

// All methods are safe from any thread.
class TicketBox {
 public:
  explicit TicketBox(const Layout& layout) {
    for (const ActionColumn& column : layout.actions) actions_.AddColumn(column.row_bytes);
    for (const OutputColumn& column : layout.outputs) outputs_.AddColumn(column.row_bytes);
  }

  // To be filled in: batches have the layout's columns, null bases and contiguous strides. Has one user.
  Ticket& Take(Op op) {
    Perturb();
    Ticket* ticket = spare_.exchange(nullptr, std::memory_order_acquire);
    if (!ticket) ticket = TakeAnother();
    Prepare(*ticket, op);
    return *ticket;
  }

  // One user less. With the last one the ticket is free again, and gives the caller's memory away: letting go
  // of that may take locks of its own.
  std::shared_ptr<void> Drop(Ticket& ticket) {
    if (ticket.users.fetch_sub(1, std::memory_order_acq_rel) > 1) return nullptr;
    std::shared_ptr<void> owner = std::move(ticket.owner);
    Perturb();
    Ticket* none = nullptr;
    if (!spare_.compare_exchange_strong(none, &ticket, std::memory_order_release)) {
      std::lock_guard lock(mutex_);
      free_.push_back(&ticket);
    }
    return owner;
  }

 private:
  Ticket* TakeAnother() {
    std::lock_guard lock(mutex_);
    if (free_.empty()) {
      free_.reserve(tickets_.size() + 1);  // so that Drop cannot fail
      Ticket& ticket = tickets_.emplace_back();
      SetColumns(ticket);
      return &ticket;
    }
    Ticket* ticket = free_.back();
    free_.pop_back();
    return ticket;
  }

  void Prepare(Ticket& ticket, Op op) const {
    ticket.op = op;
    ticket.envs = {};
    ticket.completes_root = false;
    ticket.recorded.clear();
    ticket.entropy.clear();
    ticket.reset_options.clear();
    ticket.outbox = nullptr;
    ticket.phase = Ticket::Phase::kVisits;
    ticket.resets.store(0, std::memory_order_relaxed);
    ticket.cancelled.store(false, std::memory_order_relaxed);
    ticket.finished.store(false, std::memory_order_relaxed);
    ticket.faults.clear();
    if (ticket.error) ticket.error = nullptr;
    ticket.users.store(1, std::memory_order_relaxed);
    if (std::exchange(ticket.chain, nullptr)) return SetColumns(ticket);  // it had some of its own
    for (Batch* batch : {&ticket.actions, &ticket.out, &ticket.root}) {
      std::fill(batch->base.begin(), batch->base.end(), nullptr);
    }
    if (!ticket.out.is_packed) ticket.out = outputs_;
  }

  void SetColumns(Ticket& ticket) const {
    ticket.actions = actions_;
    ticket.out = ticket.root = outputs_;
  }

  Batch actions_, outputs_;              // that nobody has filled in
  std::atomic<Ticket*> spare_{nullptr};  // the free one that was used last, for calls that follow each other
  std::mutex mutex_;
  std::deque<Ticket> tickets_;
  std::vector<Ticket*> free_;
};

}  // namespace torchrl_pool::core

#endif  // TORCHRL_POOL_CORE_TICKET_BOX_H_
