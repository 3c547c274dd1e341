// How a job's work reaches the threads, and what they do until it is done.
#include "threads/thread_executor.h"

#include <algorithm>

#include "cpu.h"
#include "errors.h"
#include "perturb.h"

namespace torchrl_pool::core {
namespace {

using Clock = EventCount::Clock;

constexpr std::uint32_t kMaxThreads = 4095;

// So long before the end of their time threads that spin may park at any moment.
constexpr auto kMayPark = std::chrono::microseconds(10);

// Work on one thread that has taken this long was underestimated.
constexpr auto kLongInline = std::chrono::microseconds(100);

// The step that a visit begins with, as EnvFault's.
std::int64_t FirstStepOf(Op op, const EnvSlot& slot) {
  if (op == Op::kCreate) return EnvFault::kInCreation;
  if (IsStateOp(op)) return EnvFault::kInStateOp;
  return op == Op::kReset ? EnvFault::kInReset : slot.elapsed_steps + 1;
}

// Steps among which are resets cost about what steps do that are followed by some.
Work VisitsOf(const Job& job) { return VisitsOf(job.begins.empty() ? job.op : Op::kStepAndReset); }

Work WorkOf(const Job& job) {
  if (job.phase == Job::Phase::kVisits) return VisitsOf(job);
  return job.phase == Job::Phase::kRoot ? Work::kRoot : Work::kRows;
}

}  // namespace

ThreadExecutor::ThreadExecutor(EnvTable& envs, JobStore& jobs, const ThreadOptions& options)
    : Executor(envs, jobs),
      options_(options),
      homes_(envs.size(),
             std::clamp(options.num_threads, 1, static_cast<int>(std::min(envs.size(), kMaxThreads)))),
      cost_(homes_.size(), AvailableCpus()),
      helper_scratch_(envs.layout()) {
  for (int home = 0; home < num_threads(); ++home) {
    home_threads_.push_back(std::make_unique<HomeThread>(homes_.First(home + 1) - homes_.First(home)));
  }
  // A first guess, for what is no more than copying: some bytes in a nanosecond.
  std::size_t row_bytes = 0;
  for (const OutputColumn& column : envs.layout().outputs) row_bytes += column.row_bytes;
  cost_.Measure(Work::kRoot, 1, std::chrono::nanoseconds(1 + row_bytes / 4));
  cost_.Measure(Work::kRows, 1, std::chrono::nanoseconds(1 + row_bytes));
}

// ---- publishing ---------------------------------------------------------------------------------

void ThreadExecutor::Begin(Job& job) {
  const auto count = static_cast<std::uint32_t>(job.envs.size());
  job.plan = PlanFor(VisitsOf(job), count);
  if (options_.step_timeout) job.plan.caller_helps = false;  // a visit of the caller could not be timed out
  job.remaining.store(count, std::memory_order_relaxed);
  TakeTicket(job);
  if (count == 0) {
    job.finished.store(true, std::memory_order_relaxed);
  } else if (!job.IsInline()) {
    Publish(job, 0, job.plan);
  }
}

// Threads that sleep are woken even for little work once such calls follow each other: then they spin.
Plan ThreadExecutor::PlanFor(Work work, std::uint32_t num_envs) const {
  const bool spin = cost_.IsWorthSharing(work, num_envs) &&
                    Clock::now() - ended_at_.load(std::memory_order_relaxed) < kSpinForPython - kMayPark;
  return cost_.PlanFor(work, num_envs, spin ? num_threads() : 1);
}

// Hands the job's envs, from the `first` of its list on, to the queues of their homes.
void ThreadExecutor::Publish(Job& job, std::uint32_t first, Plan plan) {
  const Work work = WorkOf(job);
  const ChunkSizes sizes = ChunkSizesOf(job);
  const std::span<const std::uint32_t> envs = job.envs;
  const auto count = static_cast<std::uint32_t>(envs.size());
  // The last chunk may be done before this returns, and the job with it: nothing of it is read after that.
  const bool stays_home = job.op == Op::kCreate,
             is_helped = plan.caller_helps && job.delivery == Delivery::kAwaited;
  const int first_home = homes_.Of(envs[first]), last_home = homes_.Of(envs[count - 1]);
  bool is_behind = false;
  for (std::uint32_t begin = first; begin < count;) {
    const int home = begin == first ? first_home : homes_.Of(envs[begin]);
    const auto end =
        home == last_home
            ? count
            : static_cast<std::uint32_t>(
                  std::lower_bound(envs.begin() + begin, envs.end(), homes_.First(home + 1)) - envs.begin());
    HomeQueue& queue = home_thread(home).queue;
    is_behind = is_behind || !queue.empty();
    queue.Push({&job, begin, end - begin, stays_home}, sizes);
    begin = end;
  }
  const bool insists =
      !is_helped &&
      (is_behind || cost_.IsWorthWaking(work, (count - first) / static_cast<std::uint32_t>(plan.threads)));
  Wake(first_home, std::max(plan.threads, last_home - first_home + 1), plan.threads, is_helped, insists);
}

ChunkSizes ThreadExecutor::ChunkSizesOf(const Job& job) const {
  if (options_.step_timeout) return {};  // what waits behind an env that hangs would hang with it
  ChunkSizes sizes = cost_.ChunkSizesOf(WorkOf(job));
  if (job.outbox) sizes.longest = sizes.shortest;  // results are waited for one by one
  return sizes;
}

// Wakes `threads` of them, whose homes lie evenly among `num_homes` from `first_home` on; those beyond the
// last are the first ones again. The first one is left out where the caller takes its part. The others' work
// they steal. `insists`: a thread that is awake may be in a long visit, so another one is woken in its place.
void ThreadExecutor::Wake(int first_home, int num_homes, int threads, bool is_helped, bool insists) {
  for (int i = is_helped ? 1 : 0; i < threads; ++i) {
    const int home = (first_home + i * num_homes / threads) % num_threads();
    if (!home_thread(home).parked.Notify() && insists) WakeAnother(home);
  }
}

// One of the threads that sleep, if any does.
void ThreadExecutor::WakeAnother(int home) {
  for (int i = 1; i < num_threads(); ++i) {
    EventCount& parked = home_thread((home + i) % num_threads()).parked;
    if (parked.HasSleepers() && parked.Notify()) return;
  }
}

// What was left to a thread that turns out to be held up, the others take.
void ThreadExecutor::WakeForWaitingWork() {
  const auto has_work = [](const auto& home_thread) { return !home_thread->queue.empty(); };
  if (std::none_of(home_threads_.begin(), home_threads_.end(), has_work)) return;
  for (const auto& home_thread : home_threads_) home_thread->parked.Notify();
}

// ---- working ------------------------------------------------------------------------------------

// Until there is nothing to do for a while. False: never again.
bool ThreadExecutor::WorkUntilNone(int home, Scratch& scratch, VisitWatch* watch) {
  std::optional<Spin> idle;
  while (!stop_.load(std::memory_order_acquire)) {
    const Ran ran = RunSome(home, scratch, watch);
    if (ran == Ran::kGivenUp) return false;
    if (ran == Ran::kChunk) {
      idle.reset();
      continue;
    }
    if (!idle) idle.emplace(kSpinForPython);
    if (!idle->Pause()) return true;
  }
  return false;
}

// One chunk from the home queue, or else from a neighbour's, the nearest first.
ThreadExecutor::Ran ThreadExecutor::RunSome(int home, Scratch& scratch, VisitWatch* watch) {
  Chunk chunk;
  for (int i = 0; i < num_threads(); ++i) {
    const int other = home + i < num_threads() ? home + i : home + i - num_threads();
    if (home_thread(other).queue.Pop(&chunk, i > 0)) return RunChunk(chunk, scratch, watch);
  }
  return Ran::kNothing;
}

ThreadExecutor::Ran ThreadExecutor::RunChunk(const Chunk& chunk, Scratch& scratch, VisitWatch* watch) {
  const FloatModes::Scope modes(float_modes_);
  Job& job = *chunk.job;
  const Work work = WorkOf(job);
  const auto envs = job.envs.subspan(chunk.first, chunk.count);
  const auto start = Clock::now();
  const bool visits = job.phase == Job::Phase::kVisits;
  try {
    if (!visits) {
      RunPhase(job, envs);
    } else if (!watch) {
      VisitEnvs(job, envs, 0, scratch);
    } else if (!VisitWatched(job, envs, scratch, *watch)) {
      return Ran::kGivenUp;
    }
  } catch (...) {
    Lose(job, envs, std::current_exception());
    return Ran::kChunk;
  }
  cost_.Measure(work, chunk.count, Clock::now() - start);
  if (visits) {
    Deliver(job, envs, scratch.results, scratch.faults);
  } else {
    CountDone(job, chunk.count);
  }
  return Ran::kChunk;
}

// There is one env only. False: its visit timed out and has been reported as failed, so this thread must end.
bool ThreadExecutor::VisitWatched(Job& job, std::span<const std::uint32_t> envs, Scratch& scratch,
                                  VisitWatch& watch) {
  watch.Begin({&job, envs[0], FirstStepOf(job.OpOf(envs[0]), envs_.slot(envs[0]))});
  std::exception_ptr error;
  try {
    VisitEnvs(job, envs, 0, scratch);
  } catch (...) {
    error = std::current_exception();
  }
  if (!watch.End()) return false;
  if (error) std::rethrow_exception(error);
  return true;
}

bool ThreadExecutor::SharePhase(Job& job) {
  const auto count = static_cast<std::uint32_t>(job.envs.size());
  Plan plan = PlanFor(WorkOf(job), count);
  plan.caller_helps = job.plan.caller_helps;
  if (plan.threads == 1) return false;
  job.remaining.store(count, std::memory_order_relaxed);
  Publish(job, 0, plan);
  return true;
}

// ---- waiting ------------------------------------------------------------------------------------

void ThreadExecutor::WaitFor(Job& job, InterruptCheck interrupted) {
  if (!job.finished.load(std::memory_order_acquire)) WorkUntilFinished(job, interrupted);
  // Noted even where one thread has done it all.
  if (cost_.IsWorthSharing(VisitsOf(job), static_cast<std::uint32_t>(job.envs.size()))) {
    ended_at_.store(Clock::now(), std::memory_order_relaxed);
  }
}

void ThreadExecutor::WorkUntilFinished(Job& job, InterruptCheck interrupted) {
  const bool works = job.plan.caller_helps && helper_mutex_.try_lock();
  const std::unique_lock lock =
      works ? std::unique_lock(helper_mutex_, std::adopt_lock) : std::unique_lock<std::mutex>();
  if (job.IsInline()) {
    if (works) {
      RunInline(job, interrupted);
      if (job.finished.load(std::memory_order_acquire)) return;  // without any other thread
    } else {
      job.plan.caller_helps = false;
      Publish(job, 0, job.plan);
    }
  }
  HelpUntilFinished(job, works, interrupted);
}

// Runs the job on this thread alone, and shares what is left if it turns out to be long.
void ThreadExecutor::RunInline(Job& job, InterruptCheck interrupted) {
  const auto start = Clock::now();
  const auto count = static_cast<std::uint32_t>(job.envs.size());
  bool stop = false;
  for (std::uint32_t first = 0; first < count;) {
    const std::uint32_t size = std::min(ChunkSizesOf(job).longest, count - first);
    RunChunk({&job, first, size}, helper_scratch_, nullptr);
    first += size;
    if (first == count || stop) continue;
    const auto now = Clock::now();
    if (now - start > kLongInline) {
      job.plan = PlanFor(VisitsOf(job), count - first);
      if (!job.IsInline()) return Publish(job, first, job.plan);
    }
    stop = IsTimeToAsk(now) && interrupted();
    if (stop) job.cancelled.store(true, std::memory_order_relaxed);  // the rest is skipped
  }
  if (stop) throw Interrupted();
}

void ThreadExecutor::HelpUntilFinished(Job& job, bool works, InterruptCheck interrupted) {
  const auto begin = Clock::now();
  while (true) {
    Spin spin;
    do {
      if (job.finished.load(std::memory_order_acquire)) return;
      if (works && RunSome(0, helper_scratch_, nullptr) == Ran::kChunk) {
        if (IsTimeToAsk(Clock::now()) && interrupted()) throw Interrupted();
        spin = Spin();
      }
    } while (spin.Pause());
    const std::uint32_t key = job.done.PrepareWait();
    if (job.finished.load(std::memory_order_acquire)) return job.done.CancelWait();
    WakeForWaitingWork();
    job.done.Wait(key, kInterruptPeriod);
    if (job.finished.load(std::memory_order_acquire)) return;
    if (interrupted()) throw Interrupted();
    GiveUpHung(begin);
  }
}

bool ThreadExecutor::IsTimeToAsk(Clock::time_point now) {
  if (now - last_asked_ < kInterruptPeriod) return false;
  last_asked_ = now;
  return true;
}

bool ThreadExecutor::WaitUntil(EventCount& changed, const Condition& is_over, Clock::time_point until,
                               InterruptCheck interrupted) {
  // However often what does not end its wait wakes this thread, it asks in time.
  const auto begin = Clock::now();
  for (auto asked = begin;;) {
    const std::uint32_t key = changed.PrepareWait();
    const auto now = Clock::now();
    const bool holds = is_over();  // perhaps for a moment only
    if (holds || now >= until) {
      changed.CancelWait();
      if (holds) return true;
      LookAfterWork(begin);
      return is_over();
    }
    changed.Wait(key, std::min<Clock::duration>(kInterruptPeriod, until - now));
    if (Clock::now() - asked < kInterruptPeriod || is_over()) continue;
    asked = Clock::now();
    LookAfterWork(begin);
    if (interrupted()) throw Interrupted();
  }
}

void ThreadExecutor::LookAfterWork(Clock::time_point since) {
  GiveUpHung(since);
  WakeForWaitingWork();
}

}  // namespace torchrl_pool::core
