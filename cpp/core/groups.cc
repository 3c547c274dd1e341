// Groups of envs: while one is stepped, the caller chooses another's actions.
#include <utility>

#include "errors.h"
#include "pool.h"

namespace torchrl_pool::core {

Ticket& Pool::BeginGroup(std::uint32_t group, Op op, InterruptCheck interrupted) {
  BeginCall(interrupted);
  if (group >= kMaxGroups || groups_[group].in_flight) {
    EndCall();
    throw PoolError("group " + std::to_string(group) +
                    (group >= kMaxGroups ? " is beyond the last one" : " is in flight: wait for it first"));
  }
  Prepare(*groups_[group].ticket, op);
  return *groups_[group].ticket;
}

void Pool::SubmitGroup(std::uint32_t group, Run envs, std::shared_ptr<void> owner) {
  Ticket& ticket = *groups_[group].ticket;
  try {
    CheckIndex(envs.first + envs.count - 1);
    ticket.runs.assign(1, envs);
    ticket.num_envs = envs.count;
    // The caller goes away: all the work is the threads'.
    plan_ = {cost_.PlanFor(ticket.op, envs.count).threads, false};
    std::lock_guard lock(mutex_);
    Launch(ticket);
    groups_[group].in_flight = true;
    ticket.keepalive = std::move(owner);
    Publish(kFirstGroupTicket + group, ticket, envs);
  } catch (...) {
    EndCall();
    throw;
  }
  EndCall();
}

std::uint32_t Pool::WaitGroup(std::uint32_t group, InterruptCheck interrupted) {
  {
    const auto lock = Lock();
    CheckUsable();
    if (group >= kMaxGroups || !groups_[group].in_flight) {
      throw PoolError("group " + std::to_string(group) + " is not in flight");
    }
    StartCall();
  }
  Ticket& ticket = *groups_[group].ticket;
  try {
    plan_.caller_helps = false;
    HelpUntilDone(ticket, interrupted);
  } catch (...) {
    EndCall();
    throw;
  }
  const std::shared_ptr<void> owner = std::move(ticket.keepalive);
  {
    std::lock_guard lock(mutex_);
    groups_[group].in_flight = false;
  }
  return Finish(groups_[group].ticket, owner);
}

}  // namespace torchrl_pool::core
