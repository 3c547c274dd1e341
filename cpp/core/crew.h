// Who does the work of tickets: the threads of this process, or worker processes. And what is done with some
// of a ticket's envs once they can be visited, which is the same for both.
#ifndef TORCHRL_POOL_CORE_CREW_H_
#define TORCHRL_POOL_CORE_CREW_H_

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "env_table.h"
#include "event_count.h"
#include "outbox.h"
#include "ticket.h"
#include "ticket_box.h"
#include "visit.h"
#include "visit_watch.h"

namespace torchrl_pool::core {

// All methods are safe from any thread, but for what is said of their beginning and their end.
class Crew : public Deliverer {
 public:
  using Clock = EventCount::Clock;
  // Asked now and then while waiting; true gives the wait up.
  using InterruptCheck = bool (*)();

  virtual ~Crew() = default;
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;

  virtual void Start() = 0;  // once, at first; throws PoolError
  virtual int num_threads() const = 0;

  // Plans a ticket's visits, and puts it in flight. Under an inline plan it then rests until it is waited
  // for.
  virtual void Begin(Ticket& ticket) = 0;
  // Works, where the ticket's plan says so, until the ticket has finished. Throws Interrupted.
  virtual void WaitFor(Ticket& ticket, InterruptCheck interrupted) = 0;

  // What belongs to threads that have come back after they were given up.
  virtual void FreeHung() {}
  // One of these envs, which ascend, in which a thread that was given up still is.
  virtual std::optional<std::uint32_t> FindHung(std::span<const std::uint32_t>) const { return std::nullopt; }

  // ---- The end, by one thread at a time.

  virtual void Stop() = 0;                                      // no more work is begun
  virtual bool WaitForThreads(InterruptCheck interrupted) = 0;  // but for those that hang; false: interrupted
  virtual bool Join() = 0;  // those that have ended; false: there are others, which may be in any env

 protected:
  Crew(EnvTable& envs, TicketBox& tickets) : envs_(envs), tickets_(tickets) {}

  // Visits these envs of the ticket, whose rows are then complete, and leaves the results in `scratch`.
  // False: the visit was given up, and is accounted for. There is one env only where visits are watched.
  bool VisitEnvs(Ticket& ticket, std::span<const std::uint32_t> envs, Scratch& scratch, VisitWatch* watch);
  // The ticket's chain on the rows of envs that were visited; then they begin the episodes that follow.
  void RunChain(const Ticket& ticket, std::span<const std::uint32_t> envs, Visitor& visitor,
                Scratch& scratch);
  // The one way back of results, with their faults.
  void Deliver(Ticket& ticket, std::span<const std::uint32_t> envs, std::span<const Result> results,
               std::vector<EnvFault>& faults);
  // So many envs have done their part of a phase. Once the last one of the last phase is counted the ticket
  // may be used again: nothing of it is touched after this.
  void CountDone(Ticket& ticket, std::uint32_t count);
  // Begins the ticket's next phases, by whoever has done the last of one. False: somebody else goes on.
  virtual bool RunPhases(Ticket& ticket) = 0;

  EnvTable& envs_;
  TicketBox& tickets_;
};

}  // namespace torchrl_pool::core

#endif  // TORCHRL_POOL_CORE_CREW_H_
